#include "models/latent/testing/toy_family.h"

#include <filesystem>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/files/file.h"
#include "core/base/philox.h"
#include "core/nn/nodes/attention_node.h"
#include "core/nn/nodes/embedding_nodes.h"
#include "core/nn/nodes/norm_nodes.h"
#include "core/nn/nodes/product_nodes.h"
#include "core/nn/nodes/shape_nodes.h"
#include "core/ops/diffusion/diffusion.h"
#include "models/tokenizer/clip_tokenizer.h"
#include "nlohmann/json.hpp"

namespace dpipe::models {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kWidth = 8;

// Returns a x + b y with factors per sample.
Tensor Mix(const Tensor& x, const Tensor& y, const std::vector<float>& a,
           const std::vector<float>& b) {
  Tensor mixed = Tensor::Empty(x.device(), x.shape(), DType::kF32);
  const int64_t size = x.num_elements() / x.dim(0);
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    mixed.data<float>()[i] = a[i / size] * x.data<float>()[i] + b[i / size] * y.data<float>()[i];
  }
  return mixed;
}

// x0, noise, timesteps s -> (1 - s) x0 + s noise.
class NoisingNode : public nn::Node {
 public:
  explicit NoisingNode(Shape shape) : shape_(std::move(shape)) {}
  absl::string_view kind() const override { return "toy_noising"; }
  nn::ValueType output() const override { return {shape_, nn::Element::kCompute}; }
  absl::StatusOr<Tensor> Forward(const nn::NodeContext& context, absl::Span<const Tensor> inputs,
                                 nn::SavedTensors*) const override {
    std::vector<float> a, b;
    for (float s : inputs[2].span<float>()) {
      a.push_back(1 - s);
      b.push_back(s);
    }
    const Tensor mixed = Mix(inputs[0], inputs[1], a, b);
    return context.compute_dtype == DType::kF32 ? mixed : mixed.To(context.compute_dtype);
  }
  absl::StatusOr<std::vector<Tensor>> InputGrad(const nn::NodeContext&, nn::SavedTensors*,
                                                const Tensor&) const override {
    return absl::InternalError("noised data has no gradient");
  }

 private:
  const Shape shape_;
};

// prediction, x0, noise -> mean squared error against noise - x0.
class LossNode : public nn::Node {
 public:
  absl::string_view kind() const override { return "toy_loss"; }
  nn::ValueType output() const override { return {Shape(), nn::Element::kF32}; }
  absl::StatusOr<Tensor> Forward(const nn::NodeContext&, absl::Span<const Tensor> inputs,
                                 nn::SavedTensors* saved) const override {
    const size_t count = inputs[1].dim(0);
    const Tensor target =
        Mix(inputs[2], inputs[1], std::vector<float>(count, 1), std::vector<float>(count, -1));
    if (saved != nullptr) *saved = {inputs[0], target};
    return ops::MseLossForward(inputs[0], target, Tensor());
  }
  absl::StatusOr<std::vector<Tensor>> InputGrad(const nn::NodeContext&, nn::SavedTensors* saved,
                                                const Tensor& d_loss) const override {
    std::vector<Tensor> grads(3);
    DPIPE_ASSIGN_OR_RETURN(grads[0],
                           ops::MseLossInputGrad((*saved)[0], (*saved)[1], Tensor(), d_loss));
    return grads;
  }
};

class ToyObjective : public diffusion::Objective {
 public:
  nn::Element timestep_element() const override { return nn::Element::kF32; }
  ValueId AddNoising(nn::ProgramBuilder* builder, ValueId x0, ValueId noise,
                     ValueId timesteps) const override {
    return builder->AddNode(std::make_unique<NoisingNode>(builder->shape(x0)),
                            {x0, noise, timesteps});
  }
  ValueId AddLoss(nn::ProgramBuilder* builder,
                  const diffusion::DiffusionLossInputs& inputs) const override {
    return builder->AddNode(std::make_unique<LossNode>(),
                            {inputs.prediction, inputs.x0, inputs.noise});
  }
  Tensor DrawTimesteps(const diffusion::TimestepRequest& request,
                       const std::shared_ptr<Device>& device) const override {
    Tensor timesteps = Tensor::Empty(device, {request.count}, DType::kF32);
    for (int i = 0; i < request.count; ++i) {
      RandomStream stream(request.seed, request.step, request.first_sample + i,
                          RandomPurpose::kTimestep);
      timesteps.data<float>()[i] = static_cast<float>(stream.NextUniform());
    }
    return timesteps;
  }
  absl::Status CheckDraw(const DrawOptions&) const override { return absl::OkStatus(); }
  int NumModelCalls(const DrawOptions& options) const override { return options.num_steps; }
  std::string SamplerNote(const DrawOptions&) const override { return ""; }
  // Euler steps from s = 1 to 0.
  absl::StatusOr<Tensor> Draw(const DrawOptions& options, uint32_t, const Tensor& noise,
                              const diffusion::PredictFn& predict,
                              const std::function<void()>& on_step) const override {
    const size_t count = noise.dim(0);
    const float step = 1.0f / static_cast<float>(options.num_steps);
    Tensor x = noise.Clone();
    for (int i = 0; i < options.num_steps; ++i) {
      const std::vector<float> s(count, 1 - static_cast<float>(i) * step);
      DPIPE_ASSIGN_OR_RETURN(
          const Tensor velocity,
          predict(x, Tensor::FromHost<float>(noise.device(), {noise.dim(0)}, s)));
      x = Mix(x, velocity, std::vector<float>(count, 1), std::vector<float>(count, -step));
      on_step();
    }
    return x;
  }
};

class ToyDenoiser : public Denoiser {
 public:
  ToyDenoiser(int64_t first_length, int64_t second_length)
      : first_length_(first_length), second_length_(second_length) {}

  std::string name() const override { return "transformer"; }
  std::string title() const override { return "transformer"; }
  int64_t latent_channels() const override { return 4; }
  int size_multiple() const override { return 1; }
  Sources embeddings() const override {
    return {{"context", {"text_encoder", "states"}},
            {"context_2", {"text_encoder_2", "states"}},
            {"pooled", {"text_encoder_2", "pooled"}}};
  }
  std::vector<std::shared_ptr<const Condition>> conditions() const override {
    return {std::make_shared<GuidanceCondition>(/*training_scale=*/1)};
  }
  bool embeds_guidance() const override { return true; }

  absl::StatusOr<nn::Program> BuildForTraining(const LatentSize& size,
                                               const DenoiserTraining& training) const override {
    nn::ProgramBuilder builder("transformer");
    const Shape latent({size.height, size.width, 4});
    const ValueId x0 = builder.AddInput("latents", {latent, nn::Element::kF32});
    const ValueId noise = builder.AddInput("noise", {latent, nn::Element::kF32});
    const diffusion::Objective& objective = *training.objective;
    const ValueId s = builder.AddInput("timesteps", {Shape(), objective.timestep_element()});
    builder.BeginLayer("add_noise", nn::LayerKind::kFrozen);
    const ValueId noisy = objective.AddNoising(&builder, x0, noise, s);
    const ValueId prediction = AddLayers(noisy, s, nn::LayerKind::kTrainable, &builder);
    builder.BeginLayer("loss", nn::LayerKind::kTrainable);
    builder.MarkOutput(objective.AddLoss(&builder, {prediction, x0, noise, s}), "loss");
    return builder.Build();
  }

  absl::StatusOr<nn::Program> BuildForDrawing(const LatentSize& size) const override {
    nn::ProgramBuilder builder("transformer");
    const Shape latent({size.height, size.width, 4});
    const ValueId x = builder.AddInput("noisy_latents", {latent, nn::Element::kF32});
    const ValueId s = builder.AddInput("timesteps", {Shape(), nn::Element::kF32});
    builder.BeginLayer("input", nn::LayerKind::kFrozen);
    const ValueId noisy = nn::AddCast(&builder, x, nn::Element::kCompute);
    const ValueId prediction = AddLayers(noisy, s, nn::LayerKind::kFrozen, &builder);
    builder.BeginLayer("output", nn::LayerKind::kFrozen);
    builder.MarkOutput(nn::AddCast(&builder, prediction, nn::Element::kF32), "prediction");
    return builder.Build();
  }

 private:
  // Pixels attend to the tokens of both encoders, modulated by the other inputs.
  ValueId AddLayers(ValueId noisy, ValueId timesteps, nn::LayerKind kind,
                    nn::ProgramBuilder* builder) const {
    const auto input = [builder](const std::string& name, const Shape& shape, nn::Element element) {
      return builder->AddInput(name, {shape, element});
    };
    const nn::Element compute = nn::Element::kCompute;
    const ValueId first = input("context", {first_length_, kWidth}, compute);
    const ValueId second = input("context_2", {second_length_, kWidth}, compute);
    const ValueId pooled = input("pooled", {kWidth}, compute);
    const ValueId guidance = input("guidance", {}, nn::Element::kF32);
    const Shape latent = builder->shape(noisy);
    builder->BeginLayer("modulation", kind);
    ops::TimeEmbeddingParams times;
    times.dim = kWidth;
    const ValueId level =
        nn::AddCast(builder, nn::AddReshape(builder, guidance, {1}), nn::Element::kCompute);
    ValueId vector = nn::AddLinear(builder, "time", nn::AddTimeEmbedding(builder, timesteps, times),
                                   {2 * kWidth});
    vector = nn::AddLinear(builder, "pooled", pooled, {2 * kWidth, true, false, false, vector});
    vector = nn::AddLinear(builder, "guidance", level, {2 * kWidth, true, false, false, vector});
    builder->BeginLayer("attention", kind);
    const ValueId pixels = nn::AddLinear(
        builder, "pixels", nn::AddReshape(builder, noisy, {latent[0] * latent[1], 4}), {kWidth});
    ValueId x = pixels;
    for (const auto& [name, tokens] : {std::make_pair("first", first), {"second", second}}) {
      const ValueId keys = nn::AddLinear(builder, name, tokens, {kWidth});
      x = nn::AddSum(builder, x, nn::AddAttention(builder, pixels, keys, keys, /*num_heads=*/1));
    }
    x = nn::AddModulation(builder, x, vector, /*silu=*/true);
    x = nn::AddLinear(builder, "out", x, {4, true, false, /*zero_init=*/true});
    return nn::AddReshape(builder, x, latent);
  }

  const int64_t first_length_, second_length_;
};

absl::StatusOr<nn::Program> BuildToyText(const Tokenizer& tokenizer, bool with_pooled) {
  const int64_t length = tokenizer.max_length();
  nn::ProgramBuilder builder("text");
  const ValueId ids = builder.AddInput("ids", {{length}, nn::Element::kI32});
  builder.BeginLayer("embedding", nn::LayerKind::kFrozen);
  const ValueId states = nn::AddTokenEmbedding(
      &builder, ids, {"table", "positions", tokenizer.vocab_size(), length, kWidth});
  builder.MarkOutput(states, "states");
  if (with_pooled) {
    builder.BeginLayer("pool", nn::LayerKind::kFrozen);
    const ValueId all = nn::AddReshape(&builder, states, {length * kWidth});
    builder.MarkOutput(nn::AddLinear(&builder, "pool", all, {kWidth}), "pooled");
  }
  return builder.Build();
}

absl::StatusOr<TextEncoder> ReadToyText(const PipelineFolder& folder, const std::string& suffix,
                                        bool with_pooled) {
  TextEncoder encoder;
  encoder.name = absl::StrCat("text_encoder", suffix);
  encoder.tokenizer_name = absl::StrCat("tokenizer", suffix);
  DPIPE_ASSIGN_OR_RETURN(ClipTokenizer tokenizer,
                         ClipTokenizer::Load(folder.PathOf(encoder.tokenizer_name)));
  encoder.tokenizer = std::make_shared<const ClipTokenizer>(std::move(tokenizer));
  encoder.build = [tokenizer = encoder.tokenizer, with_pooled] {
    return BuildToyText(*tokenizer, with_pooled);
  };
  return encoder;
}

}  // namespace

void WriteToyFolder(const std::string& folder) {
  fs::remove_all(folder);
  for (const char* name : {"vae", "tokenizer", "scheduler"}) {
    fs::create_directories(absl::StrCat(folder, "/", name));
    fs::copy(absl::StrCat("data/tiny_sd/", name), absl::StrCat(folder, "/", name));
  }
  fs::remove(absl::StrCat(folder, "/vae/", kDiffusersWeights));
  fs::copy(folder + "/tokenizer", folder + "/tokenizer_2");
  const std::string path = folder + "/tokenizer_2/tokenizer_config.json";
  auto json = nlohmann::ordered_json::parse(*ReadFile(path));
  json["model_max_length"] = kSecondLength;
  DPIPE_CHECK(WriteFileAtomically(path, json.dump()).ok());
  for (const char* name : {"text_encoder", "text_encoder_2", "transformer"}) {
    const std::string component = absl::StrCat(folder, "/", name);
    fs::create_directories(component);
    DPIPE_CHECK(WriteFileAtomically(component + "/config.json", "{}").ok());
  }
  const char kIndex[] = R"({"_class_name": "ToyPipeline", "scheduler": ["toy", "ToyScheduler"],
      "text_encoder": ["toy", "Text"], "text_encoder_2": ["toy", "Text"],
      "tokenizer": ["toy", "Tokenizer"], "tokenizer_2": ["toy", "Tokenizer"],
      "transformer": ["toy", "Transformer"], "vae": ["diffusers", "AutoencoderKL"]})";
  DPIPE_CHECK(WriteFileAtomically(folder + "/model_index.json", kIndex).ok());
}

absl::StatusOr<LatentParts> ReadToyFamily(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const PipelineFolder folder, PipelineFolder::Open(path));
  DPIPE_RETURN_IF_ERROR(folder.CheckClass({"ToyPipeline"}));
  LatentParts parts(folder);
  DPIPE_ASSIGN_OR_RETURN(parts.vae, ReadVae(folder, 4, "transformer"));
  for (const auto& [suffix, with_pooled] : {std::make_pair("", false), {"_2", true}}) {
    DPIPE_ASSIGN_OR_RETURN(TextEncoder encoder, ReadToyText(folder, suffix, with_pooled));
    parts.text_encoders.push_back(std::move(encoder));
  }
  DPIPE_ASSIGN_OR_RETURN(parts.scheduler, ReadSchedulerFile(folder, {}));
  parts.objective = std::make_shared<ToyObjective>();
  parts.denoiser =
      std::make_shared<ToyDenoiser>(parts.text_encoders[0].tokenizer->max_length(), kSecondLength);
  DPIPE_ASSIGN_OR_RETURN(parts.image_size,
                         ChooseImageSize(/*wanted=*/32, 8, parts.vae, folder.ConfigOf("vae")));
  return parts;
}

}  // namespace dpipe::models
