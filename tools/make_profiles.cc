// Writes the modelled profiles in data/profiles/modelled.
//   bazel run //tools:make_profiles -- --output=data/profiles/modelled
#include <cstdio>
#include <string>

#include "core/base/files/file.h"
#include "core/base/files/run_paths.h"
#include "core/base/status.h"
#include "core/command_line/command_line.h"
#include "core/schedule/file_formats/plan_io.h"
#include "gflags/gflags.h"
#include "tools/profiles/catalogue.h"

DEFINE_string(output, "", "folder to write DEVICE/MODEL_RESOLUTION.textproto into");
DEFINE_string(only, "", "write only paths that contain this text");

namespace dpipe::tools {
namespace {

constexpr char kUsage[] =
    "Writes profiles of diffusion models on GPUs, modelled by an analytic roofline.\n"
    "  bazel run //tools:make_profiles -- --output=data/profiles/modelled\n";

absl::Status WriteAll(const std::string& folder) {
  for (const CatalogueEntry& entry : Catalogue()) {
    if (entry.path.find(FLAGS_only) == std::string::npos) continue;
    const std::string path = folder + "/" + entry.path;
    DPIPE_RETURN_IF_ERROR(MakeFolder(folder + "/" + entry.device));
    DPIPE_ASSIGN_OR_RETURN(const ModelProfile profile, ProfileOf(entry));
    DPIPE_RETURN_IF_ERROR(WriteTextProto(path, profile));
    std::printf("%s\n", path.c_str());
  }
  return absl::OkStatus();
}

absl::Status Main() {
  DPIPE_RETURN_IF_ERROR(RequireFlag("output", FLAGS_output));
  return WriteAll(OutputPath(FLAGS_output));
}

}  // namespace
}  // namespace dpipe::tools

int main(int argc, char** argv) {
  return dpipe::RunCommand(argc, argv, {"make_profiles", dpipe::tools::kUsage}, dpipe::tools::Main);
}
