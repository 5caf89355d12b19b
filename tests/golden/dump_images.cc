// Writes a model as a folder in diffusers layout, and images drawn with it, so that
// compare_images_with_diffusers.py can draw the same images from that folder:
//   <out>/model               the folder, with random weights if --model has none
//   <out>/images.safetensors  "noise" and "latents" [prompts, h, w, c], "pixels" [prompts, H, W, 3]
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/files/file.h"
#include "core/base/files/run_paths.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "core/nn/execution.h"
#include "gflags/gflags.h"
#include "models/diffusion/diffusion_objective.h"
#include "models/diffusion/draws.h"
#include "models/diffusion/sampler.h"
#include "models/diffusion/samplers/samplers.h"
#include "models/folder/find_folders.h"
#include "models/stable_diffusion/stable_diffusion.h"
#include "models/vae/vae.h"

DEFINE_string(model, "tiny_sd", "name of a built-in model, or a folder in diffusers layout");
DEFINE_string(out, "", "folder to write to");
DEFINE_string(prompts, "a large red circle|a small blue square left of a green star",
              "captions, separated by |");
DEFINE_string(store, "fp32", "element type of the stored U-Net's weights: fp32, fp16 or bf16");
DEFINE_int32(steps, 6, "denoising steps");
DEFINE_double(guidance, 4, "classifier-free guidance scale");
FLAG_RANGE(steps, 1, 10'000);
FLAG_RANGE(guidance, 0, 1'000);

namespace dpipe::models {
namespace {

using Inputs = std::map<std::string, Tensor>;

absl::StatusOr<Tensor> RunProgram(const nn::Program& program, const nn::ParameterSet& parameters,
                                  const Inputs& inputs) {
  nn::ValueMap values;
  for (const auto& [name, tensor] : inputs) values[program.InputNamed(name)] = tensor;
  DPIPE_RETURN_IF_ERROR(nn::Forward(program, program.all_layers(), parameters, {DType::kF32},
                                    &values, /*state=*/nullptr));
  return values[program.outputs()[0]];
}

// Returns the parameters of one component's program with these weights.
absl::StatusOr<std::unique_ptr<nn::ParameterSet>> MakeSet(const nn::Program& program,
                                                          const NamedTensors& weights) {
  auto set = std::make_unique<nn::ParameterSet>(program, program.all_layers(), Device::Cpu());
  DPIPE_RETURN_IF_ERROR(set->Load(weights));
  return set;
}

// The unconditional half comes first, as WithGuidance requires.
absl::StatusOr<Tensor> Contexts(const LatentPipeline& model, std::vector<std::string> prompts) {
  if (diffusion::IsGuided(static_cast<float>(FLAGS_guidance))) {
    prompts.insert(prompts.begin(), prompts.size(), "");
  }
  DPIPE_RETURN_IF_ERROR(model.LoadFrozen(kFirstTextEncoder));
  std::vector<Tensor> rows;
  for (const std::string& prompt : prompts) {
    const std::vector<int32_t> ids = model.parts().text_encoders[0].tokenizer->Encode(prompt);
    const Tensor tokens = Tensor::FromHost<int32_t>(
        Device::Cpu(), {1, static_cast<int64_t>(ids.size())}, absl::MakeConstSpan(ids));
    DPIPE_ASSIGN_OR_RETURN(
        rows.emplace_back(),
        RunProgram(model.model().component(kFirstTextEncoder).program,
                   *model.frozen_parameters()[kFirstTextEncoder], {{"ids", tokens}}));
  }
  return ConcatBatch(rows);
}

absl::StatusOr<NamedTensors> Draw(const LatentPipeline& model, const NamedTensors& weights,
                                  const std::vector<std::string>& prompts) {
  DPIPE_ASSIGN_OR_RETURN(const nn::Program unet,
                         model.denoiser().BuildForDrawing(model.latent_size()));
  DPIPE_ASSIGN_OR_RETURN(
      const nn::Program decoder,
      BuildVaeDecoder(model.parts().vae, model.image_size(), model.image_size()));
  DPIPE_ASSIGN_OR_RETURN(const auto unet_set, MakeSet(unet, weights));
  DPIPE_ASSIGN_OR_RETURN(const NamedTensors decoder_weights, model.LoadDecoder(decoder));
  DPIPE_ASSIGN_OR_RETURN(const auto decoder_set, MakeSet(decoder, decoder_weights));
  DPIPE_ASSIGN_OR_RETURN(const Tensor context, Contexts(model, prompts));
  const auto predict = [&](const Tensor& x, const Tensor& timesteps) {
    return RunProgram(unet, *unet_set,
                      {{"noisy_latents", x}, {"timesteps", timesteps}, {"context", context}});
  };
  const LatentSize size = model.latent_size();
  const diffusion::NoiseSchedule& schedule =
      dynamic_cast<const diffusion::DiffusionObjective&>(model.objective()).schedule();
  NamedTensors result;
  result["noise"] = diffusion::DrawNoise(Device::Cpu(), /*seed=*/1, /*step=*/0, /*first=*/0,
                                         {static_cast<int64_t>(prompts.size()), size.height,
                                          size.width, model.denoiser().latent_channels()},
                                         RandomPurpose::kSample);
  diffusion::SamplerOptions sampling;
  sampling.kind = diffusion::ChooseSampler(schedule.options()).kind;
  sampling.num_steps = FLAGS_steps;
  DPIPE_ASSIGN_OR_RETURN(
      result["latents"],
      diffusion::Sample(schedule, sampling, result["noise"],
                        diffusion::WithGuidance(predict, static_cast<float>(FLAGS_guidance))));
  DPIPE_ASSIGN_OR_RETURN(result["pixels"],
                         RunProgram(decoder, *decoder_set, {{"latents", result["latents"]}}));
  return result;
}

absl::Status Main() {
  DPIPE_RETURN_IF_ERROR(RequireFlag("out", FLAGS_out));
  const std::string out = UserPath(FLAGS_out);
  DPIPE_ASSIGN_OR_RETURN(const StoredFormat format, ParseStoredFormat(FLAGS_store));
  DPIPE_ASSIGN_OR_RETURN(const std::string folder, FindModelFolder(FLAGS_model));
  DPIPE_ASSIGN_OR_RETURN(const auto model, LoadStableDiffusion(folder, {}));
  NamedTensors unet = model->RandomDenoiser(1);
  if (model->has_denoiser_weights()) {
    DPIPE_ASSIGN_OR_RETURN(unet, model->LoadDenoiser());
  }
  DPIPE_RETURN_IF_ERROR(model->Save(out + "/model", unet, format));
  // Draws with the saved model.
  DPIPE_ASSIGN_OR_RETURN(const auto saved, LoadStableDiffusion(out + "/model", {}));
  DPIPE_ASSIGN_OR_RETURN(unet, saved->LoadDenoiser());
  const std::vector<std::string> prompts = absl::StrSplit(FLAGS_prompts, '|');
  DPIPE_ASSIGN_OR_RETURN(const NamedTensors tensors, Draw(*saved, unet, prompts));
  return SaveWeights(out + "/images.safetensors", tensors);
}

}  // namespace
}  // namespace dpipe::models

int main(int argc, char** argv) {
  const dpipe::Command command = {"dump_images",
                                  "Writes a model folder, and images drawn with it.\n"
                                  "  bazel run //tests/golden:dump_images -- --out=FOLDER\n"};
  return dpipe::RunCommand(argc, argv, command, dpipe::models::Main);
}
