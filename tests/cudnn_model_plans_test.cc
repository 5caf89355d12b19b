// Checks that cuDNN has an engine on an H200 for every convolution and attention of the reference
// models, in bf16 and at the batch sizes used in training. Skips if cuDNN is not installed.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "core/base/files/file.h"
#include "core/nn/program.h"
#include "core/ops/cuda/cudnn/cudnn_graphs.h"
#include "core/ops/cuda/cudnn/planned_gpu.h"
#include "gtest/gtest.h"
#include "models/clip_text/clip_text.h"
#include "models/controlnet/controlnet.h"
#include "models/diffusion/diffusion_objective.h"
#include "models/mmdit/flux_transformer.h"
#include "models/mmdit/sd3_transformer.h"
#include "models/pixel_unet/pixel_unet.h"
#include "models/unet/unet.h"
#include "models/vae/vae.h"

namespace dpipe {
namespace {

using ops::cuda::AttentionShape;
using ops::cuda::Convolution;
using ops::cuda::CudnnGraph;

constexpr int64_t kBatch = 64;
constexpr int64_t kTokens = 77;
constexpr int64_t kCascadeBase = 64;  // pixels per side of the image to enlarge

std::string Config(const std::string& file) {
  const auto text = ReadFile("models/" + file);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? *text : "";
}

// Adds as many zeros around the image as its sizes and the filters' require, fewer before than
// after.
Convolution ConvolutionOf(int64_t batch, const Shape& x, const Shape& w, const Shape& y) {
  const int64_t stride = (x[0] + y[0] - 1) / y[0];
  const auto zeros = [stride](int64_t in, int64_t filter, int64_t out) {
    return std::max<int64_t>(0, (out - 1) * stride + filter - in);
  };
  const int64_t rows = zeros(x[0], w[2], y[0]), columns = zeros(x[1], w[3], y[1]);
  return {batch,       x[0],
          x[1],        x[2],
          w[0],        w[2],
          w[3],        y[0],
          y[1],        stride,
          rows / 2,    rows - rows / 2,
          columns / 2, columns - columns / 2};
}

class CudnnModelPlansTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<ops::cuda::PlannedGpu> gpu = ops::cuda::PlannedGpu::Open("h200");
    if (absl::IsNotFound(gpu.status())) GTEST_SKIP() << gpu.status();
    ASSERT_TRUE(gpu.ok()) << gpu.status();
    gpu_ = std::make_unique<ops::cuda::PlannedGpu>(*std::move(gpu));
  }

  struct Attentions {
    std::function<int64_t(int64_t)> num_heads;  // by the width
    bool causal = false;
  };

  // Plans each pass of each shape once.
  void ExpectPlans(const absl::StatusOr<nn::Program>& program, const Attentions& attentions,
                   int64_t batch = kBatch) {
    ASSERT_TRUE(program.ok()) << program.status();
    int found = 0;
    const int begin = program->layer(0).begin_node;
    const int end = program->layer(program->num_layers() - 1).end_node;
    for (int i = begin; i < end; ++i) {
      const nn::NodeInfo& node = program->node(nn::NodeId(i));
      const auto shape = [&](int input) { return program->value(node.inputs[input]).type.shape; };
      if (node.node->kind() == "conv2d") {
        const Shape& w = program->parameter(node.parameters[0]).shape;
        if (w[2] > 1) {  // the others are matrix products
          ++found;
          Plan(node, ConvolutionOf(batch, shape(0), w, program->value(node.output).type.shape));
        }
      } else if (node.node->kind() == "attention") {
        ++found;
        const int64_t width = shape(0)[1];
        const int64_t heads = attentions.num_heads(width);
        Plan(node, AttentionShape{batch, heads, shape(0)[0], shape(1)[0], width / heads, 1,
                                  attentions.causal});
      }
    }
    EXPECT_GT(found, 10);
  }

 private:
  using Plans = absl::StatusOr<std::unique_ptr<ops::cuda::CudnnPlan>>;

  void Plan(const nn::NodeInfo& node, const Convolution& c) {
    const auto plan = [&](const char* pass, const std::function<void(CudnnGraph*)>& describe) {
      PlanOnce({pass, c.batch, c.height, c.width, c.channels, c.outputs, c.rows, c.stride},
               [&] { return gpu_->Plan(describe); });
    };
    plan("convolution", [&](CudnnGraph* g) { DescribeConvolution(c, DType::kBf16, g); });
    if (node.input_grad_mask != 0) {
      plan("its input's gradient", [&](CudnnGraph* g) { DescribeInputGrad(c, DType::kBf16, g); });
    }
    if (node.wants_weight_grad) {
      plan("its filters' gradient", [&](CudnnGraph* g) { DescribeFilterGrad(c, DType::kBf16, g); });
    }
  }
  void Plan(const nn::NodeInfo& node, const AttentionShape& a) {
    PlanOnce({"attention", a.batch, a.heads, a.queries, a.keys, a.size, a.causal, 0},
             [&] { return gpu_->PlanAttention(a); });
    if (node.input_grad_mask == 0) return;
    AttentionShape part = a;
    const int64_t at_once = ops::cuda::SamplesAtOnce(a);
    for (int64_t begin = 0; begin < a.batch; begin += at_once) {
      part.batch = std::min(at_once, a.batch - begin);
      PlanOnce({"its gradient", part.batch, a.heads, a.queries, a.keys, a.size, a.causal, 0},
               [&] { return gpu_->PlanAttentionGrad(part); });
    }
  }

  using Key =
      std::tuple<std::string, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>;
  void PlanOnce(const Key& key, const std::function<Plans()>& make) {
    if (!planned_.insert(key).second) return;
    const Plans plan = make();
    EXPECT_TRUE(plan.ok()) << std::get<0>(key) << " of " << std::get<1>(key) << ", "
                           << std::get<2>(key) << ", " << std::get<3>(key) << ", "
                           << std::get<4>(key) << ", " << std::get<5>(key) << ": " << plan.status();
  }

  std::unique_ptr<ops::cuda::PlannedGpu> gpu_;
  std::set<Key> planned_;
};

std::function<int64_t(int64_t)> HeadsOf(const models::UNetConfig& config) {
  std::map<int64_t, int64_t> heads;
  for (int i = 0; i < config.num_levels(); ++i) {
    heads[config.block_out_channels[i]] = config.num_heads[i];
  }
  return [heads](int64_t width) { return heads.at(width); };
}

models::UNetConfig UNet(const std::string& file) {
  const auto config = models::ParseUNetConfig(Config("testdata/" + file), file);
  EXPECT_TRUE(config.ok()) << config.status();
  return *config;
}

diffusion::DiffusionObjective Training() {
  return diffusion::DiffusionObjective(
      *diffusion::NoiseSchedule::Create(diffusion::NoiseScheduleOptions()));
}

TEST_F(CudnnModelPlansTest, StableDiffusionV21) {
  const models::UNetConfig config = UNet("unet_v21.json");
  ExpectPlans(models::BuildUNetForTraining(config, {}, Training()), {HeadsOf(config)});
}

TEST_F(CudnnModelPlansTest, ControlNetV15) {
  const models::UNetConfig unet = UNet("unet_v15.json");
  const auto config = models::ParseControlNetConfig(
      Config("controlnet/testdata/controlnet_v15.json"), "controlnet_v15.json");
  ASSERT_TRUE(config.ok()) << config.status();
  ExpectPlans(models::BuildControlNetForTraining(*config, unet, {}, Training()), {HeadsOf(unet)});
}

TEST_F(CudnnModelPlansTest, VaeEncoder) {
  const auto config = models::ParseVaeConfig(Config("testdata/vae_sd.json"), "vae_sd.json");
  ASSERT_TRUE(config.ok()) << config.status();
  // Groups of samples that fill bubbles.
  for (const int64_t samples : {4, 16}) {
    ExpectPlans(models::BuildVaeEncoder(*config, 512, 512), {[](int64_t) { return 1; }}, samples);
  }
}

// Both frozen and trained.
TEST_F(CudnnModelPlansTest, TextEncoders) {
  for (const char* file : {"text_v21.json", "text_v15.json"}) {
    const auto config = models::ParseClipTextConfig(Config(absl::StrCat("testdata/", file)), file);
    ASSERT_TRUE(config.ok()) << config.status();
    const int64_t heads = config->num_heads;
    ExpectPlans(models::BuildClipText(*config, kTokens, nn::LayerKind::kTrainable),
                {[heads](int64_t) { return heads; }, /*causal=*/true});
  }
}

// At 1024 pixels, with the text tokens of their pipelines.
TEST_F(CudnnModelPlansTest, DiffusionTransformers) {
  constexpr int64_t kSamples = 8;
  const auto sd3 = models::ParseSd3TransformerConfig(Config("testdata/mmdit/sd35_medium.json"),
                                                     "sd35_medium.json");
  ASSERT_TRUE(sd3.ok()) << sd3.status();
  ExpectPlans(models::BuildSd3Transformer(*sd3, {128, 128, 333}, nn::LayerKind::kTrainable),
              {[&](int64_t width) { return width / sd3->head_size; }}, kSamples);
  const auto flux =
      models::ParseFluxTransformerConfig(Config("testdata/mmdit/flux_dev.json"), "flux_dev.json");
  ASSERT_TRUE(flux.ok()) << flux.status();
  ExpectPlans(models::BuildFluxTransformer(*flux, {128, 128, 512}, nn::LayerKind::kTrainable),
              {[&](int64_t width) { return width / flux->head_size; }}, kSamples);
}

// Both models in data/models.
TEST_F(CudnnModelPlansTest, Cascades) {
  for (const char* name : {"cdm_lsun", "cdm_imagenet"}) {
    for (const char* part : {"base", "super_resolution"}) {
      const auto config = models::ReadPixelUNetConfig(
          absl::StrCat("data/models/", name, "/", part, "/config.json"));
      ASSERT_TRUE(config.ok()) << config.status();
      models::PixelUNetOptions options;
      options.height = options.width = config->sample_size;
      if (config->noise_level_embed) options.low_height = options.low_width = kCascadeBase;
      const diffusion::NoiseSchedule schedule = Training().schedule();
      ExpectPlans(models::BuildPixelUNetForTraining(*config, options, {schedule, 0, schedule}),
                  {[&](int64_t width) {
                    return config->head_channels == 0 ? 1 : width / config->head_channels;
                  }});
    }
  }
}

}  // namespace
}  // namespace dpipe
