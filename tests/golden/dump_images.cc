// Writes a model as a folder in diffusers layout, and images drawn with it, so that
// compare_images_with_diffusers.py can draw the same images from that folder:
//   <out>/model               the folder, with random weights if --model has none
//   <out>/images.safetensors  "noise" and "latents" [prompts, h, w, c], "pixels" [prompts, H, W, 3]
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/check.h"
#include "core/base/files/file.h"
#include "core/base/files/run_paths.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "core/nn/execution.h"
#include "gflags/gflags.h"
#include "models/diffusion/draws.h"
#include "models/folder/find_folders.h"
#include "models/latent/image_sampler.h"
#include "models/latent/trainable.h"
#include "models/trainable/load.h"
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

absl::StatusOr<NamedTensors> Draw(const LatentPipeline& model, const NamedTensors& weights,
                                  const std::vector<std::string>& prompts) {
  DPIPE_ASSIGN_OR_RETURN(const auto sampler, ImageSampler::Create(&model, weights, DType::kF32));
  const LatentSize size = model.latent_size();
  NamedTensors result;
  result["noise"] = diffusion::DrawNoise(Device::Cpu(), /*seed=*/1, /*step=*/0, /*first=*/0,
                                         {static_cast<int64_t>(prompts.size()), size.height,
                                          size.width, model.denoiser().latent_channels()},
                                         RandomPurpose::kSample);
  DrawOptions options;
  options.num_steps = FLAGS_steps;
  options.guidance = static_cast<float>(FLAGS_guidance);
  DPIPE_ASSIGN_OR_RETURN(result["latents"],
                         sampler->DrawLatents(prompts, options, result["noise"], Device::Cpu()));
  DPIPE_ASSIGN_OR_RETURN(
      const nn::Program decoder,
      BuildVaeDecoder(model.parts().vae, model.image_size(), model.image_size()));
  DPIPE_ASSIGN_OR_RETURN(const NamedTensors decoder_weights, model.LoadDecoder(decoder));
  nn::ParameterSet parameters(decoder, decoder.all_layers(), Device::Cpu());
  DPIPE_RETURN_IF_ERROR(parameters.Load(decoder_weights));
  nn::ValueMap values = {{decoder.InputNamed("latents"), result["latents"]}};
  DPIPE_RETURN_IF_ERROR(nn::Forward(decoder, decoder.all_layers(), parameters, {DType::kF32},
                                    &values, /*state=*/nullptr));
  result["pixels"] = values[decoder.OutputNamed("pixels")];
  return result;
}

absl::StatusOr<std::unique_ptr<TrainableLatentModel>> Load(const std::string& folder) {
  DPIPE_ASSIGN_OR_RETURN(const ModelKind* kind, FindLatentKind(folder, /*with_conditions=*/false));
  DPIPE_ASSIGN_OR_RETURN(std::unique_ptr<TrainableModel> model, kind->load(folder, {}));
  auto* const latent = dynamic_cast<TrainableLatentModel*>(model.get());
  DPIPE_CHECK(latent != nullptr);  // as the kind says
  model.release();
  return std::unique_ptr<TrainableLatentModel>(latent);
}

absl::Status Main() {
  DPIPE_RETURN_IF_ERROR(RequireFlag("out", FLAGS_out));
  const std::string out = UserPath(FLAGS_out);
  DPIPE_ASSIGN_OR_RETURN(const StoredFormat format, ParseStoredFormat(FLAGS_store));
  DPIPE_ASSIGN_OR_RETURN(const std::string folder, FindModelFolder(FLAGS_model));
  DPIPE_ASSIGN_OR_RETURN(const auto model, Load(folder));
  NamedTensors unet = model->pipeline().RandomDenoiser(1);
  if (model->has_weights()) {
    DPIPE_ASSIGN_OR_RETURN(unet, model->pipeline().LoadDenoiser());
  }
  DPIPE_RETURN_IF_ERROR(model->Save(out + "/model", unet, format));
  // Draws with the saved model.
  DPIPE_ASSIGN_OR_RETURN(const auto saved, Load(out + "/model"));
  DPIPE_ASSIGN_OR_RETURN(unet, saved->pipeline().LoadDenoiser());
  const std::vector<std::string> prompts = absl::StrSplit(FLAGS_prompts, '|');
  DPIPE_ASSIGN_OR_RETURN(const NamedTensors tensors, Draw(saved->pipeline(), unet, prompts));
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
