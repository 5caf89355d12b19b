#include "bench/comparison/describe_run.h"

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/backend/device_report.h"
#include "core/base/files/file.h"
#include "core/base/files/run_paths.h"
#include "core/report/machine.h"
#include "data/fingerprint.h"
#include "google/protobuf/stubs/common.h"
#include "oneapi/dnnl/dnnl.h"

namespace dpipe::bench {
namespace {

constexpr char kUnknown[] = "unknown";

// Returns the workspace's git revision, or the one that came with a program run elsewhere.
std::string Revision() {
  const char* const told = std::getenv("DPIPE_REVISION");
  if (told != nullptr) return told;
  // A single quote in the path would end the quoting: such a workspace has no revision here.
  const std::string folder = OutputPath(".");
  if (folder.find('\'') != std::string::npos) return kUnknown;
  const std::string command = absl::StrCat(
      "git -C '", folder, "' describe --always --dirty --abbrev=12 --exclude='*'", " 2>/dev/null");
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return kUnknown;
  char line[128] = {};
  const bool read = std::fgets(line, sizeof(line), pipe) != nullptr;
  if (pclose(pipe) != 0 || !read) return kUnknown;
  return std::string(absl::StripSuffix(line, "\n"));
}

std::string ProgramFingerprint() {
  // For a program started through the C library's loader, /proc/self/exe would be the loader.
  const char* const told = std::getenv("DPIPE_PROGRAM_FILE");
  const auto program = ReadFile(told != nullptr ? told : "/proc/self/exe", int64_t{1} << 32);
  if (!program.ok()) return kUnknown;
  return Fingerprint().Add(*program).ToString().substr(0, 16);
}

}  // namespace

void DescribeRun(CaseResult* results) {
  static const std::string* const kProgram = new std::string(ProgramFingerprint());
  static const std::string* const kRevision = new std::string(Revision());
  MachineInfo& machine = *results->mutable_machine();
  machine = report::CollectMachineInfo();
  if (results->backend() == "cuda") {
    for (const std::string& gpu : ThisMachinesGpus().gpus) machine.add_gpus(gpu);
    machine.set_gpu_driver(ThisMachinesGpus().driver);
  }
  results->set_created(absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone()));
  const dnnl_version_t* dnnl = dnnl_version();
  auto& versions = *results->mutable_versions();
  versions["oneDNN"] = absl::StrCat(dnnl->major, ".", dnnl->minor, ".", dnnl->patch);
  versions["protobuf"] = google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION);
  versions["program"] = *kProgram;
  versions["revision"] = *kRevision;
}

}  // namespace dpipe::bench
