// Converts a model between a single file in its original layout and a folder in diffusers layout.
//   bazel run //tools:convert -- --model=FILE.safetensors --out=FOLDER
//   bazel run //tools:convert -- --model=FOLDER --out=FILE.safetensors
#include "models/single_file/convert.h"

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/files/run_paths.h"
#include "core/command_line/command_line.h"
#include "gflags/gflags.h"
#include "models/folder/find_folders.h"

DEFINE_string(model, "",
              "what to convert: a single file, *.safetensors, or a folder in diffusers layout or "
              "the name of a built-in model with weights");
DEFINE_string(out, "", "what to write, which must not exist: a folder, or a file *.safetensors");
DEFINE_string(config, "",
              "for a single file: the folder in diffusers layout with the same model's "
              "configurations and tokenizers, and with weights that the file lacks; empty: the "
              "built-in model that the file's tensors fit");
DEFINE_string(dtype, "same",
              "element type of the weights: fp32, fp16 or bf16; same: each component's own");
DEFINE_bool(denoiser_only, false,
            "write a file of the U-Net or transformer alone; a transformer's names then have no "
            "prefix, as in the files of FLUX.1");

namespace dpipe::tools {
namespace {

constexpr char kUsage[] =
    "Converts a model between a single file in its original layout (Stable Diffusion 1, 2 and 3,\n"
    "SDXL, FLUX.1) and a folder in diffusers layout.\n"
    "  bazel run //tools:convert -- --model=FILE.safetensors --config=FOLDER --out=NEW_FOLDER\n"
    "  bazel run //tools:convert -- --model=FOLDER --out=NEW_FILE.safetensors\n";

bool IsFile(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

void Say(const models::ConversionNotes& notes) {
  for (const std::string& note : notes) std::printf("%s\n", note.c_str());
}

absl::StatusOr<std::string> ConfigFolder(const std::string& file) {
  if (!FLAGS_config.empty()) return models::FindModelFolder(FLAGS_config);
  DPIPE_ASSIGN_OR_RETURN(const models::FittingConfig fitting, models::FindFittingConfig(file));
  std::printf(
      "Configuration: %s, because the file fits it%s\n", fitting.name.c_str(),
      fitting.others.empty()
          ? ""
          : absl::StrCat(" (and also ", absl::StrJoin(fitting.others, ", "), "; --config chooses)")
                .c_str());
  return models::FindModelFolder(fitting.name);
}

absl::Status FileToFolder(const std::string& file, const std::string& out,
                          std::optional<models::StoredFormat> format) {
  if (FLAGS_denoiser_only) {
    return CommandLineError("--denoiser_only is for writing a file, not a folder");
  }
  DPIPE_ASSIGN_OR_RETURN(const std::string config, ConfigFolder(file));
  DPIPE_ASSIGN_OR_RETURN(const models::ConversionNotes notes,
                         models::ConvertFileToFolder(file, config, out, format));
  Say(notes);
  return absl::OkStatus();
}

absl::Status FolderToFile(const std::string& out, std::optional<models::StoredFormat> format) {
  if (!FLAGS_config.empty()) {
    return CommandLineError("--config is for a single file; a folder has its own configurations");
  }
  if (!absl::EndsWith(out, ".safetensors")) {
    return CommandLineError(absl::StrCat("--out=", FLAGS_out, " must end in .safetensors, because ",
                                         FLAGS_model, " is a folder"));
  }
  DPIPE_ASSIGN_OR_RETURN(const std::string folder, models::FindModelFolder(FLAGS_model));
  DPIPE_ASSIGN_OR_RETURN(const models::ConversionNotes notes,
                         models::ConvertFolderToFile(folder, out, format, FLAGS_denoiser_only));
  Say(notes);
  return absl::OkStatus();
}

absl::Status Main() {
  DPIPE_RETURN_IF_ERROR(RequireFlag("model", FLAGS_model));
  DPIPE_RETURN_IF_ERROR(RequireFlag("out", FLAGS_out));
  DPIPE_RETURN_IF_ERROR(CheckChoice("dtype", FLAGS_dtype, {"same", "fp32", "fp16", "bf16"}));
  std::optional<models::StoredFormat> format;
  if (FLAGS_dtype != "same") {
    DPIPE_ASSIGN_OR_RETURN(format, models::ParseStoredFormat(FLAGS_dtype));
  }
  const std::string model = UserPath(FLAGS_model), out = UserPath(FLAGS_out);
  DPIPE_RETURN_IF_ERROR(IsFile(model) ? FileToFolder(model, out, format)
                                      : FolderToFile(out, format));
  std::printf("Written to %s\n", out.c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace dpipe::tools

int main(int argc, char** argv) {
  const dpipe::Command command = {"convert",
                                  dpipe::tools::kUsage,
                                  {{"What is converted", {"model", "config"}},
                                   {"What is written", {"out", "dtype", "denoiser_only"}}}};
  return dpipe::RunCommand(argc, argv, command, dpipe::tools::Main);
}
