// Draws prompts with a trained model into one PNG, each image above its prompt.
//   bazel run //tools:sample -- --prompt="a large red circle|a small blue star"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/files/local_path.h"
#include "core/base/files/run_paths.h"
#include "core/base/text/show.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "data/images/image_encode.h"
#include "data/images/image_grid.h"
#include "gflags/gflags.h"
#include "models/diffusion/samplers/samplers.h"
#include "models/folder/find_folders.h"
#include "tools/sampling/prompts.h"
#include "tools/sampling/sampling_devices.h"
#include "tools/sampling/sampling_model.h"
#include "tools/training/trained_model.h"

DEFINE_string(
    model, "",
    "folder in diffusers layout, or tiny_sd or tiny_flux; empty: out/train if it exists, else "
    "tiny_sd");
DEFINE_string(prompt, "", "prompt to draw; several are separated by |");
DEFINE_string(prompts_file, "", "text file with more prompts, one per line");
DEFINE_int32(count, 1, "number of images per prompt");
DEFINE_int32(steps, 30, "denoising steps");
DEFINE_double(guidance, 4, "classifier-free guidance scale; 1: no guidance");
DEFINE_string(lora, "",
              "file of low-rank adapters to use, or a folder written by diffusers, PEFT or "
              "//tools:train; empty: the model's own");
DEFINE_double(lora_scale, 1, "factor on the low-rank adapters");
DEFINE_int32(
    image_size, 0,
    "image size in pixels a side, as in training; 0: the size that the model was made for");
DEFINE_string(sampler, "folder",
              "sampler: folder (the scheduler of the model's folder), ddim, ddpm, dpm++, euler, "
              "euler_a, lcm, pndm or unipc");
DEFINE_string(control, "",
              "picture that conditions every prompt through the model's ControlNet, resized and "
              "cropped as in training; empty: no ControlNet");
DEFINE_uint64(seed, 1, "seed for the initial noise");
DEFINE_string(dtype, "fp32", "element type of the computation, fp32 or bf16");
DEFINE_string(backend, "auto", "cpu, cuda, or auto: cuda if there are enough GPUs, else cpu");
DEFINE_int32(devices, 0, "number of devices that share the work; 0: one per core, or every GPU");
DEFINE_int32(
    columns, 0,
    "number of images per row; 0: --count, or if that is 1, about as many as there are rows");
DEFINE_int32(zoom, 2, "factor by which images are enlarged in the PNG, 1 to 64");
DEFINE_string(out, "", "PNG file to write, *.png; empty: out/samples.png");
FLAG_RANGE(count, 1, 100'000);
FLAG_RANGE(steps, 1, 10'000);
FLAG_RANGE(image_size, 0, 4'096);
FLAG_RANGE(guidance, 0, 1'000);
FLAG_RANGE(lora_scale, -1'000, 1'000);
FLAG_RANGE(devices, 0, 1'024);
FLAG_RANGE(columns, 0, 100'000);
FLAG_RANGE(zoom, 1, 64);

namespace dpipe::tools {
namespace {

constexpr char kUsage[] =
    "Draws prompts with a trained model into one PNG, each image above its prompt.\n"
    "  bazel run //tools:sample -- --prompt=\"a large red circle|a small blue star\"\n";

void Say(const std::string& line) { std::printf("%s\n", line.c_str()), std::fflush(stdout); }

std::string OutPath() {
  return FLAGS_out.empty() ? OutputPath("out/samples.png") : UserPath(FLAGS_out);
}

// Checks the output path before drawing, so that no work is lost.
absl::Status CheckOut() {
  const std::string path = OutPath();
  if (IsFolder(path)) {
    return CommandLineError(
        absl::StrCat("--out=", FLAGS_out, " is a folder; expected the name of a .png file"));
  }
  if (!absl::EndsWithIgnoreCase(path, ".png")) {
    return CommandLineError(
        absl::StrCat("--out=", FLAGS_out, " must end in .png, the format that is written"));
  }
  return MakeParentFolder(path);
}

absl::Status CheckFlags() {
  if (FLAGS_prompt.empty() && FLAGS_prompts_file.empty()) {
    return CommandLineError("--prompt=\"a large red circle\" or --prompts_file is missing");
  }
  DPIPE_RETURN_IF_ERROR(CheckChoice("backend", FLAGS_backend, {"auto", "cpu", "cuda"}));
  DPIPE_RETURN_IF_ERROR(CheckIsLocal("lora", UserPath(FLAGS_lora), HubKind::kModel));
  DPIPE_RETURN_IF_ERROR(AsCommandLineError(ParseComputeDType(FLAGS_dtype).status()));
  DPIPE_RETURN_IF_ERROR(AsCommandLineError(diffusion::ParseSampler(FLAGS_sampler).status()));
  return CheckOut();
}

// Warns about prompts with more tokens than the text encoder's context, which are cut.
void WarnOfLongPrompts(const Tokenizer& tokenizer, const std::vector<std::string>& prompts) {
  const int max_tokens = tokenizer.max_length() - tokenizer.num_special_tokens();
  std::set<std::string> seen;
  for (const std::string& prompt : prompts) {
    const int tokens = tokenizer.NumTokens(prompt) - tokenizer.num_special_tokens();
    if (tokens <= max_tokens || !seen.insert(prompt).second) continue;
    Say(absl::StrCat("Warning:  the prompt '", ShowText(prompt, /*max_bytes=*/40), "' has ", tokens,
                     " tokens; the model reads only the first ", max_tokens));
  }
}

int Columns(size_t num_images) {
  if (FLAGS_columns > 0) return FLAGS_columns;
  if (FLAGS_count > 1) return FLAGS_count;
  return static_cast<int>(std::ceil(std::sqrt(static_cast<double>(num_images))));
}

// Returns the request for all prompts, with --control's picture for each.
absl::StatusOr<models::DrawRequest> RequestOf(const models::TrainableModel& model,
                                              const std::vector<std::string>& prompts) {
  models::DrawRequest request;
  request.prompts = prompts;
  DPIPE_ASSIGN_OR_RETURN(request.compute_dtype, ParseComputeDType(FLAGS_dtype));
  request.options.num_steps = FLAGS_steps;
  request.options.guidance = static_cast<float>(FLAGS_guidance);
  request.options.seed = FLAGS_seed;
  DPIPE_ASSIGN_OR_RETURN(request.options.kind, diffusion::ParseSampler(FLAGS_sampler));
  DPIPE_RETURN_IF_ERROR(model.CheckDraw(prompts, request.options));
  if (FLAGS_control.empty()) return request;
  const std::string path = UserPath(FLAGS_control);
  DPIPE_ASSIGN_OR_RETURN(const Image condition, ReadConditionPicture(path, model.image_size()));
  request.conditions.assign(prompts.size(), condition);
  return request;
}

absl::StatusOr<std::vector<Image>> DrawAll(const SamplingModel& drawn,
                                           models::DrawRequest request) {
  DPIPE_ASSIGN_OR_RETURN(const SamplingDevices devices,
                         SamplingDevices::Start(FLAGS_backend, FLAGS_devices, Say));
  const int num_workers = static_cast<int>(devices.workers().size());
  // Small enough that every worker has work.
  const int num_images = static_cast<int>(request.prompts.size());
  request.options.batch =
      std::clamp((num_images + num_workers - 1) / num_workers, 1, request.options.batch);
  return drawn.model->Draw(drawn.parameters, request, devices.workers(), /*on_progress=*/nullptr);
}

absl::Status Main() {
  DPIPE_RETURN_IF_ERROR(CheckFlags());
  const std::string file = FLAGS_prompts_file.empty() ? "" : UserPath(FLAGS_prompts_file);
  DPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> prompts,
                         CollectPrompts(FLAGS_prompt, file, FLAGS_count));
  SamplingModelOptions options;
  options.with_control = !FLAGS_control.empty();
  options.image_size = FLAGS_image_size;
  if (!FLAGS_lora.empty()) options.adapters_file = models::ModelOfRun(UserPath(FLAGS_lora));
  options.adapters_scale = static_cast<float>(FLAGS_lora_scale);
  DPIPE_ASSIGN_OR_RETURN(const std::string folder,
                         SamplingFolder(FLAGS_model, OutputPath("out/train")));
  DPIPE_ASSIGN_OR_RETURN(const SamplingModel drawn, LoadSamplingModel(folder, options, Say));
  if (drawn.tokenizer != nullptr) WarnOfLongPrompts(*drawn.tokenizer, prompts);
  DPIPE_ASSIGN_OR_RETURN(const models::DrawRequest request, RequestOf(*drawn.model, prompts));
  const std::string note = drawn.model->SamplerNote(request.options);
  if (!note.empty()) Say(absl::StrCat("Note:     ", note));
  const GridLayout layout = {Columns(prompts.size()), /*margin=*/4, FLAGS_zoom, prompts};
  const int side = drawn.model->image_size();
  DPIPE_RETURN_IF_ERROR(CheckGrid(prompts.size(), {side, side}, layout));
  DPIPE_ASSIGN_OR_RETURN(const std::vector<Image> images, DrawAll(drawn, request));
  const Image grid = MakeGrid(images, layout);
  DPIPE_ASSIGN_OR_RETURN(const std::string png, EncodePng(grid));
  const std::string out = OutPath();
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(out, png));
  std::printf(
      "Model:    %s\nSamples:  %s (%s)\n", folder.c_str(), out.c_str(),
      images.size() == 1
          ? "1 image"
          : absl::StrCat(images.size(), " images, row by row in the order of the prompts").c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace dpipe::tools

int main(int argc, char** argv) {
  const dpipe::Command command = {
      "sample",
      dpipe::tools::kUsage,
      {{"What is drawn", {"model", "prompt", "prompts_file", "count", "control"}},
       {"How",
        {"steps", "guidance", "image_size", "sampler", "seed", "dtype", "backend", "devices"}},
       {"Picture", {"out", "columns", "zoom"}},
       {"Adapters", {"lora", "lora_scale"}}},
      {"model", "prompt", "count", "lora", "steps", "guidance", "seed", "out"}};
  return dpipe::RunCommand(argc, argv, command, dpipe::tools::Main);
}
