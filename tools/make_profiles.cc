// Writes the modelled profiles of data/profiles/modelled.
//   bazel run //tools:make_profiles -- --output=data/profiles/modelled
#include <gflags/gflags.h>

#include <cstdio>
#include <string>

#include "core/base/file.h"
#include "core/base/run_paths.h"
#include "core/base/status.h"
#include "core/cost/roofline/catalogue.h"

DEFINE_string(output, "", "folder to write DEVICE/MODEL_RESOLUTION.textproto into");
DEFINE_string(only, "", "write only paths that contain this text");

namespace dpipe::tools {
namespace {

absl::Status WriteAll(const std::string& folder) {
  for (const roofline::CatalogueEntry& entry : roofline::Catalogue()) {
    if (entry.path.find(FLAGS_only) == std::string::npos) continue;
    const std::string path = folder + "/" + entry.path;
    DPIPE_RETURN_IF_ERROR(MakeFolder(folder + "/" + entry.device));
    const ModelProfile profile = roofline::ProfileOf(entry);
    DPIPE_RETURN_IF_ERROR(WriteFileAtomically(path, roofline::CompactTextProto(profile)));
    std::printf("%s\n", path.c_str());
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace dpipe::tools

int main(int argc, char** argv) {
  gflags::SetUsageMessage(
      "Writes profiles of diffusion models on GPUs, modelled by an analytic roofline.\n"
      "  bazel run //tools:make_profiles -- --output=data/profiles/modelled");
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  if (FLAGS_output.empty() || argc > 1) {
    std::fprintf(stderr, "make_profiles: --output=FOLDER is needed, and nothing else\n");
    return 2;
  }
  const absl::Status status = dpipe::tools::WriteAll(dpipe::OutputPath(FLAGS_output));
  if (status.ok()) return 0;
  std::fprintf(stderr, "make_profiles: %s\n", std::string(status.message()).c_str());
  return 1;
}
