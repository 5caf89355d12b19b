// Draws prompts with a trained model into one PNG.
//   bazel run //tools:sample -- --prompt="a large red circle|a small blue star"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/file.h"
#include "core/base/run_paths.h"
#include "data/image_encode.h"
#include "gflags/gflags.h"
#include "models/diffusion/scheduler_class.h"
#include "models/stable_diffusion/sampler.h"
#include "tools/command_line.h"
#include "tools/prompts.h"
#include "tools/trained_model.h"

DEFINE_string(model, "", "folder in diffusers layout, or tiny_sd; empty: out/train, else tiny_sd");
DEFINE_string(prompt, "", "what to draw; several are separated by |");
DEFINE_string(prompts_file, "", "more prompts, one a line");
DEFINE_int32(count, 1, "images of each prompt");
DEFINE_int32(steps, 30, "denoising steps");
DEFINE_double(guidance, 4, "classifier-free guidance; 1: none");
DEFINE_string(lora, "",
              "file of low-rank adapters to draw with, or folder with one; empty: the model's own");
DEFINE_double(lora_scale, 1, "how strongly low-rank adapters count");
DEFINE_string(sampler, "ddim", "ddim, ddpm or dpm++ (DPM-Solver++ 2M)");
DEFINE_uint64(seed, 1, "of the noise that drawing begins with");
DEFINE_string(dtype, "fp32", "fp32 or bf16: what is computed in");
DEFINE_int32(devices, 0, "CPU devices that share the work; 0: one for each core");
DEFINE_int32(columns, 0, "images in a row; 0: about as many as rows, or --count");
DEFINE_int32(zoom, 2, "pixels of the PNG for a pixel of an image");
DEFINE_string(out, "", "PNG to write; empty: out/samples.png");

namespace dpipe::tools {
namespace {

constexpr char kUsage[] =
    "Draws prompts with a trained model into one PNG.\n"
    "  bazel run //tools:sample -- --prompt=\"a large red circle|a small blue star\"\n";

void Say(const std::string& line) { std::printf("%s\n", line.c_str()), std::fflush(stdout); }

absl::Status CheckFlags() {
  DPIPE_RETURN_IF_ERROR(CheckChoice("dtype", FLAGS_dtype, {"fp32", "bf16"}));
  DPIPE_RETURN_IF_ERROR(diffusion::ParseSamplerKind(FLAGS_sampler).status());
  if (FLAGS_zoom < 1 || FLAGS_zoom > 64 || FLAGS_columns < 0 || FLAGS_devices < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--zoom=", FLAGS_zoom, " must be from 1 to 64, --columns=", FLAGS_columns,
                     " and --devices=", FLAGS_devices, " must not be negative"));
  }
  if (!std::isfinite(FLAGS_lora_scale)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--lora_scale=", FLAGS_lora_scale, " must be a finite number"));
  }
  return absl::OkStatus();
}

// Of the folder's scheduler, whose place --sampler takes.
void SayWhatIsNotFollowed(const models::StableDiffusion& model, diffusion::SamplerKind kind) {
  const std::vector<std::string> keys = diffusion::KeysNotFollowed(model.scheduler_config(), kind);
  if (keys.empty()) return;
  Say(absl::StrCat("Note:     --sampler=", FLAGS_sampler, " does not follow these keys of ",
                   model.folder(),
                   "/scheduler/scheduler_config.json: ", absl::StrJoin(keys, ", ")));
}

int Columns(size_t num_images) {
  if (FLAGS_columns > 0) return FLAGS_columns;
  if (FLAGS_count > 1) return FLAGS_count;
  return static_cast<int>(std::ceil(std::sqrt(static_cast<double>(num_images))));
}

absl::StatusOr<std::vector<Image>> DrawAll(const models::StableDiffusion& model,
                                           const std::vector<std::string>& prompts) {
  const int devices = FLAGS_devices > 0 ? FLAGS_devices : static_cast<int>(AllowedCores().size());
  DPIPE_ASSIGN_OR_RETURN(const auto shares, Device::PartitionCpu(devices));
  const auto owners = StartWorkers(shares);
  std::vector<DeviceWorker*> workers;
  for (const auto& worker : owners) workers.push_back(worker.get());
  DPIPE_ASSIGN_OR_RETURN(const auto unet, model.LoadUNet());
  const DType dtype = FLAGS_dtype == "bf16" ? DType::kBf16 : DType::kF32;
  DPIPE_ASSIGN_OR_RETURN(const auto sampler, models::ImageSampler::Create(&model, unet, dtype));
  models::DrawOptions options;
  options.num_steps = FLAGS_steps;
  options.guidance = static_cast<float>(FLAGS_guidance);
  options.seed = FLAGS_seed;
  DPIPE_ASSIGN_OR_RETURN(options.kind, diffusion::ParseSamplerKind(FLAGS_sampler));
  SayWhatIsNotFollowed(model, options.kind);
  // Small enough that every worker has something to do.
  const int num_images = static_cast<int>(prompts.size());
  options.batch = std::clamp((num_images + devices - 1) / devices, 1, options.batch);
  return sampler->Draw(prompts, options, workers);
}

absl::Status Main() {
  DPIPE_RETURN_IF_ERROR(CheckFlags());
  const std::string file = FLAGS_prompts_file.empty() ? "" : UserPath(FLAGS_prompts_file);
  DPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> prompts,
                         CollectPrompts(FLAGS_prompt, file, FLAGS_count));
  models::StableDiffusionOptions options;
  if (!FLAGS_lora.empty()) options.adapters_file = UserPath(FLAGS_lora);
  options.adapters_scale = static_cast<float>(FLAGS_lora_scale);
  DPIPE_ASSIGN_OR_RETURN(const auto model,
                         LoadTrainedModel(FLAGS_model, OutputPath("out/train"), Say, options));
  DPIPE_ASSIGN_OR_RETURN(const std::vector<Image> images, DrawAll(*model, prompts));
  const Image grid = models::MakeGrid(images, Columns(images.size()), /*margin=*/4, FLAGS_zoom);
  DPIPE_ASSIGN_OR_RETURN(const std::string png, EncodePng(grid));
  const std::string out = FLAGS_out.empty() ? OutputPath("out/samples.png") : UserPath(FLAGS_out);
  const std::string folder = std::filesystem::path(out).parent_path().string();
  if (!folder.empty()) DPIPE_RETURN_IF_ERROR(MakeFolder(folder));
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(out, png));
  std::printf("Model:    %s\nSamples:  %s (%d images, by rows in the order of the prompts)\n",
              model->folder().c_str(), out.c_str(), static_cast<int>(images.size()));
  return absl::OkStatus();
}

}  // namespace
}  // namespace dpipe::tools

int main(int argc, char** argv) {
  return dpipe::tools::RunCommand(argc, argv, {"sample", dpipe::tools::kUsage}, dpipe::tools::Main);
}
