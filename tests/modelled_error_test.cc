// How far modelled profiles are from the profiles that were measured on one H200, from which their
// efficiencies were calibrated. core/cost/roofline/README.md and data/profiles/README.md quote it.
// Everything but time follows from the same programs, so it is equal.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/cost/roofline/modelled_profile.h"
#include "core/schedule/file_formats/plan_io.h"
#include "gtest/gtest.h"
#include "tools/profiles/catalogue.h"

namespace dpipe {
namespace {

// Totals over a component's layers: forward, input gradients, weight gradients, by local batch.
using Totals = std::map<int, std::vector<double>>;

Totals TotalsOf(const ComponentProfile& component) {
  Totals totals;
  for (const LayerProfile& layer : component.layers()) {
    for (const LayerTiming& t : layer.timings()) {
      std::vector<double>& sums = totals[t.local_batch()];
      sums.resize(3);
      sums[0] += static_cast<double>(t.forward_ns());
      sums[1] += static_cast<double>(t.input_grad_ns());
      sums[2] += static_cast<double>(t.weight_grad_ns());
    }
  }
  return totals;
}

struct Error {
  std::string file, component;
  int pass;          // index into Totals' sums
  double low, high;  // modelled / measured, over local batches of 4 and more
};

TEST(ModelledErrorTest, MatchesTheStatedError) {
  const std::map<std::string, absl::StatusOr<roofline::ModelWork>> models = {
      {"stable_diffusion_v2_1_512", tools::StableDiffusionV21(512, false)},
      {"stable_diffusion_v1_5_512", tools::StableDiffusionV15(512)},
      {"controlnet_v1_0_512", tools::ControlNetV10(512)}};
  const Error errors[] = {
      {"stable_diffusion_v2_1_512", "vae_encoder", 0, 0.85, 0.85},
      {"stable_diffusion_v2_1_512", "unet", 0, 0.97, 1.08},
      {"stable_diffusion_v2_1_512", "unet", 1, 0.91, 0.96},
      {"stable_diffusion_v2_1_512", "unet", 2, 0.83, 1.09},
      {"stable_diffusion_v1_5_512", "unet", 0, 0.97, 1.04},
      {"stable_diffusion_v1_5_512", "unet", 1, 0.95, 0.99},
      {"stable_diffusion_v1_5_512", "unet", 2, 0.81, 1.09},
      {"controlnet_v1_0_512", "controlnet", 0, 0.95, 1.05},
      {"controlnet_v1_0_512", "controlnet", 1, 0.96, 0.99},
      {"controlnet_v1_0_512", "controlnet", 2, 0.69, 0.94},
      {"controlnet_v1_0_512", "locked_encoder", 0, 1.06, 1.06},
  };
  const auto& device = roofline::Devices().back();
  ASSERT_EQ(device.name, "h200_sxm");
  for (const Error& error : errors) {
    ModelProfile measured;
    const auto read = ReadTextProto("data/profiles/h200/" + error.file + ".textproto", &measured);
    ASSERT_TRUE(read.ok()) << read;
    ASSERT_TRUE(models.at(error.file).ok()) << models.at(error.file).status();
    const ModelProfile modelled = roofline::ModelledProfile(*models.at(error.file), device);
    double low = 10, high = 0;
    for (int c = 0; c < measured.components_size(); ++c) {
      if (measured.components(c).name() != error.component) continue;
      ASSERT_EQ(modelled.components(c).name(), error.component);
      Totals predicted = TotalsOf(modelled.components(c));
      for (const auto& [batch, sums] : TotalsOf(measured.components(c))) {
        if (batch < 4 || predicted.count(batch) == 0) continue;
        const double ratio = predicted[batch][error.pass] / sums[error.pass];
        low = std::min(low, ratio);
        high = std::max(high, ratio);
      }
    }
    EXPECT_NEAR(low, error.low, 0.01) << error.file << " " << error.component << " " << error.pass;
    EXPECT_NEAR(high, error.high, 0.01)
        << error.file << " " << error.component << " " << error.pass;
  }
}

// Names, kinds, parameters and values are equal. Saved bytes are those of the tensors that the H200
// kept, which include the statistics of norms and attentions (at most 2.1 % of a layer).
TEST(ModelledErrorTest, EverythingButTimeIsAsMeasured) {
  const struct {
    std::string file;
    absl::StatusOr<roofline::ModelWork> (*make)();
  } models[] = {
      {"stable_diffusion_v2_1_512", [] { return tools::StableDiffusionV21(512, false); }},
      {"stable_diffusion_v1_5_512", [] { return tools::StableDiffusionV15(512); }},
      {"controlnet_v1_0_512", [] { return tools::ControlNetV10(512); }},
      {"cdm_lsun_256", tools::CdmLsun},
      {"cdm_imagenet_256", tools::CdmImageNet},
  };
  for (const auto& model : models) {
    ModelProfile measured;
    const auto read = ReadTextProto("data/profiles/h200/" + model.file + ".textproto", &measured);
    ASSERT_TRUE(read.ok()) << read;
    const auto work = model.make();
    ASSERT_TRUE(work.ok()) << work.status();
    ASSERT_EQ(measured.components_size(), static_cast<int>(work->components.size()));
    for (int c = 0; c < measured.components_size(); ++c) {
      ComponentProfile expected = measured.components(c), actual = work->components[c].profile;
      ASSERT_EQ(expected.layers_size(), actual.layers_size());
      for (int l = 0; l < expected.layers_size(); ++l) {
        LayerProfile* a = expected.mutable_layers(l);
        LayerProfile* b = actual.mutable_layers(l);
        EXPECT_LE(b->saved_bytes_per_sample(), a->saved_bytes_per_sample()) << a->name();
        EXPECT_GE(static_cast<double>(b->saved_bytes_per_sample()),
                  0.979 * static_cast<double>(a->saved_bytes_per_sample()))
            << a->name();
        for (LayerProfile* layer : {a, b}) {
          layer->clear_timings();
          layer->clear_optimizer_step_ns();
          layer->clear_saved_bytes_per_sample();
          layer->clear_workspace_bytes_per_sample();
        }
      }
      expected.clear_load_ns_per_sample();
      EXPECT_EQ(expected.SerializeAsString(), actual.SerializeAsString())
          << model.file << " " << expected.name();
    }
  }
}

}  // namespace
}  // namespace dpipe
