// Writes a model as a folder in diffusers layout, and images drawn with it, so that a script can
// draw the same images from that folder with diffusers (compare_images_with_diffusers.py):
//   <out>/model               the folder, with random weights if --model has none; with --lora_rank
//                             and random adapters in its file
//   <out>/images.safetensors  "noise" and "latents" [prompts, h, w, c], "pixels" [prompts, H, W, 3]
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/files/run_paths.h"
#include "core/base/philox.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "gflags/gflags.h"
#include "models/diffusion/draws.h"
#include "models/folder/find_folders.h"
#include "models/latent/testing/draw_from_noise.h"
#include "models/latent/trainable.h"
#include "models/trainable/load.h"

DEFINE_string(model, "tiny_sd", "name of a built-in model, or a folder in diffusers layout");
DEFINE_string(out, "", "folder to write to");
DEFINE_string(prompts, "a large red circle|a small blue square left of a green star",
              "captions, separated by |");
DEFINE_string(store, "fp32", "element type of the stored denoiser's weights: fp32, fp16 or bf16");
DEFINE_int32(steps, 6, "denoising steps");
DEFINE_double(guidance, 4, "guidance scale");
DEFINE_int32(lora_rank, 0, "rank of random adapters; 0: none");
DEFINE_string(lora_targets, "", "layers to adapt, as --model.lora_targets of train");
DEFINE_int32(max_sequence_length, 0, "as --model.max_sequence_length of train; 0: the model's own");
DEFINE_string(lora_format, "diffusers", "names of adapters: diffusers or kohya");
FLAG_RANGE(steps, 1, 10'000);
FLAG_RANGE(guidance, 0, 1'000);
FLAG_RANGE(lora_rank, 0, 1'024);
FLAG_RANGE(max_sequence_length, 0, 512);

namespace dpipe::models {
namespace {

absl::StatusOr<std::unique_ptr<TrainableModel>> LoadLatent(const std::string& folder,
                                                           const LoadModelOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(const ModelKind* kind, FindLatentKind(folder, /*with_conditions=*/false));
  return kind->load(folder, options);
}

const LatentPipeline& PipelineOf(const TrainableModel& model) {
  return dynamic_cast<const TrainableLatentModel&>(model).pipeline();
}

// New adapters add nothing; these do.
void MakeAdaptersRandom(NamedTensors* parameters) {
  uint32_t number = 0;
  for (auto& [name, tensor] : *parameters) {
    if (!absl::EndsWith(name, nn::kLoraUp)) continue;
    tensor = tensor.Clone();
    RandomStream random(/*seed=*/1, /*step=*/0, number++, RandomPurpose::kTest);
    for (float& x : tensor.span<float>()) {
      x = 0.2f * (static_cast<float>(random.NextUniform()) - 0.5f);
    }
  }
}

absl::Status Main() {
  DPIPE_RETURN_IF_ERROR(RequireFlag("out", FLAGS_out));
  const std::string out = UserPath(FLAGS_out);
  DPIPE_ASSIGN_OR_RETURN(const StoredFormat format, ParseStoredFormat(FLAGS_store));
  DPIPE_ASSIGN_OR_RETURN(const std::string folder, FindModelFolder(FLAGS_model));
  LoadModelOptions drawing_only;
  drawing_only.max_sequence_length = FLAGS_max_sequence_length;
  LoadModelOptions loading = drawing_only;
  loading.lora.rank = FLAGS_lora_rank;
  loading.lora.targets = absl::StrSplit(FLAGS_lora_targets, ',', absl::SkipEmpty());
  DPIPE_ASSIGN_OR_RETURN(loading.lora_format, ParseLoraFormat(FLAGS_lora_format));
  DPIPE_ASSIGN_OR_RETURN(const auto model, LoadLatent(folder, loading));
  NamedTensors parameters = PipelineOf(*model).RandomDenoiser(1);
  if (model->has_weights()) {
    DPIPE_ASSIGN_OR_RETURN(parameters, PipelineOf(*model).LoadDenoiser());
  }
  MakeAdaptersRandom(&parameters);
  DPIPE_RETURN_IF_ERROR(model->Save(out + "/model", parameters, format));
  // Draws with the saved model, whose adapters are merged.
  DPIPE_ASSIGN_OR_RETURN(const auto saved, LoadLatent(out + "/model", drawing_only));
  const LatentPipeline& pipeline = PipelineOf(*saved);
  DPIPE_ASSIGN_OR_RETURN(parameters, pipeline.LoadDenoiser());
  const std::vector<std::string> prompts = absl::StrSplit(FLAGS_prompts, '|');
  const LatentSize size = pipeline.latent_size();
  const Tensor noise = diffusion::DrawNoise(Device::Cpu(), /*seed=*/1, /*step=*/0, /*first=*/0,
                                            {static_cast<int64_t>(prompts.size()), size.height,
                                             size.width, pipeline.denoiser().latent_channels()},
                                            RandomPurpose::kSample);
  DrawOptions drawing;
  drawing.num_steps = FLAGS_steps;
  drawing.guidance = static_cast<float>(FLAGS_guidance);
  drawing.seed = 1;
  DPIPE_RETURN_IF_ERROR(pipeline.objective().CheckDraw(drawing));
  DPIPE_ASSIGN_OR_RETURN(NamedTensors tensors,
                         DrawFromNoise(pipeline, parameters, prompts, drawing, noise));
  tensors["noise"] = noise;
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
