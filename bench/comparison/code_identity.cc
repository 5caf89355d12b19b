#include "bench/comparison/code_identity.h"

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/backend/gpu_names.h"
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

// Returns "NAME A and B" for each fact that differs, by name.
using Facts = std::map<std::string, std::string>;
std::string Differences(const Facts& a, const Facts& b) {
  Facts all = a;
  all.insert(b.begin(), b.end());
  std::vector<std::string> differences;
  for (const auto& [name, unused] : all) {
    const auto in_a = a.find(name), in_b = b.find(name);
    const std::string from = in_a == a.end() ? kUnknown : in_a->second;
    const std::string to = in_b == b.end() ? kUnknown : in_b->second;
    if (from != to) differences.push_back(absl::StrCat(name, " ", from, " and ", to));
  }
  return absl::StrJoin(differences, ", ");
}

Facts FactsOf(const report::MachineInfo& machine, bool with_gpus) {
  Facts facts = {{"processor", machine.cpu_model},
                 {"cores", absl::StrCat(machine.num_logical_cores)},
                 {"physical cores", absl::StrCat(machine.num_physical_cores)},
                 {"bytes of memory", absl::StrCat(machine.memory_bytes)},
                 {"kernel", machine.kernel},
                 {"system", machine.operating_system}};
  if (with_gpus && !machine.gpus.empty()) facts["GPUs"] = report::DescribeGpus(machine);
  if (with_gpus && !machine.gpu_driver.empty()) facts["GPU driver"] = machine.gpu_driver;
  return facts;
}

}  // namespace

void DescribeRun(report::BenchResults* results) {
  static const std::string* const kProgram = new std::string(ProgramFingerprint());
  static const std::string* const kRevision = new std::string(Revision());
  results->machine = report::CollectMachineInfo();
  if (results->backend == "cuda") {
    results->machine.gpus = ThisMachinesGpus().gpus;
    results->machine.gpu_driver = ThisMachinesGpus().driver;
  }
  results->created = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone());
  const dnnl_version_t* dnnl = dnnl_version();
  results->versions["oneDNN"] = absl::StrCat(dnnl->major, ".", dnnl->minor, ".", dnnl->patch);
  results->versions["protobuf"] =
      google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION);
  results->versions["program"] = *kProgram;
  results->versions["revision"] = *kRevision;
}

std::string CodeDifference(const report::BenchResults& a, const report::BenchResults& b) {
  return Differences(a.versions, b.versions);
}

std::string MachineDifference(const report::BenchResults& a, const report::BenchResults& b) {
  // In a suite, cases on CPUs list no GPUs although cases beside them do.
  const bool with_gpus = a.backend == b.backend;
  return Differences(FactsOf(a.machine, with_gpus), FactsOf(b.machine, with_gpus));
}

std::string MachineClass(const report::MachineInfo& machine) {
  // Results on GPUs depend on GPU memory, not on the host's. The host's varies by whole GiB from
  // boot to boot on such machines, because part of it is reserved for devices.
  const std::string last = machine.gpus.empty() ? absl::StrCat(machine.memory_bytes >> 30, " GiB")
                                                : report::DescribeGpus(machine);
  const std::string text =
      absl::StrCat(machine.cpu_model, "-", machine.num_logical_cores, " cores-", last);
  std::string name;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) || c == '-';
    if (plain) name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (!plain && !name.empty() && name.back() != '_') name += '_';
  }
  return name;
}

}  // namespace dpipe::bench
