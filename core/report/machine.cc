#include "core/report/machine.h"

#include <sys/utsname.h>

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/bytes.h"
#include "core/base/files/file.h"
#include "core/base/host/usable_cpus.h"

namespace dpipe::report {
namespace {

std::string ReadOrEmpty(const char* path) { return ReadFile(path).value_or(""); }

// Calls visit(key, value) for each line "key <separator> value".
template <typename Visit>
void ForEachPair(absl::string_view text, char separator, Visit visit) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const size_t at = line.find(separator);
    if (at == absl::string_view::npos) continue;
    visit(absl::StripAsciiWhitespace(line.substr(0, at)),
          absl::StripAsciiWhitespace(line.substr(at + 1)));
  }
}

std::string Kernel() {
  utsname names;
  if (uname(&names) != 0) return "unknown";
  return absl::StrCat(names.sysname, " ", names.release);
}

std::string Compiler() {
#if defined(__clang__)
  return absl::StrCat("clang ", __clang_major__, ".", __clang_minor__, ".", __clang_patchlevel__);
#elif defined(__GNUC__)
  return absl::StrCat("gcc ", __GNUC__, ".", __GNUC_MINOR__, ".", __GNUC_PATCHLEVEL__);
#else
  return "unknown";
#endif
}

}  // namespace

std::string CpuModelOf(absl::string_view cpuinfo) {
  std::string best, fallback;
  ForEachPair(cpuinfo, ':', [&](absl::string_view key, absl::string_view value) {
    if (key == "model name" && best.empty()) best = std::string(value);
    if ((key == "Model" || key == "Hardware") && fallback.empty()) fallback = std::string(value);
  });
  if (!best.empty()) return best;
  return fallback.empty() ? "unknown" : fallback;
}

int NumPhysicalCoresOf(absl::string_view cpuinfo) {
  std::set<std::pair<std::string, std::string>> cores;
  std::string package;
  ForEachPair(cpuinfo, ':', [&](absl::string_view key, absl::string_view value) {
    if (key == "physical id") package = std::string(value);
    if (key == "core id") cores.emplace(package, std::string(value));
  });
  return static_cast<int>(cores.size());
}

int64_t MemoryBytesOf(absl::string_view meminfo) {
  int64_t size_bytes = 0;
  ForEachPair(meminfo, ':', [&](absl::string_view key, absl::string_view value) {
    int64_t kibibytes = 0;
    if (key != "MemTotal") return;
    const std::vector<absl::string_view> words = absl::StrSplit(value, ' ');
    if (absl::SimpleAtoi(words[0], &kibibytes)) size_bytes = kibibytes * kKiB;
  });
  return size_bytes;
}

std::string OperatingSystemOf(absl::string_view os_release) {
  std::string name;
  ForEachPair(os_release, '=', [&](absl::string_view key, absl::string_view value) {
    if (key != "PRETTY_NAME") return;
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
      value = value.substr(1, value.size() - 2);
    }
    name = std::string(value);
  });
  return name;
}

MachineInfo CollectMachineInfo() {
  const std::string cpuinfo = ReadOrEmpty("/proc/cpuinfo");
  MachineInfo machine;
  machine.set_cpu_model(CpuModelOf(cpuinfo));
  machine.set_num_logical_cores(FindUsableCpus().count);
  machine.set_num_physical_cores(NumPhysicalCoresOf(cpuinfo));
  machine.set_memory_bytes(MemoryBytesOf(ReadOrEmpty("/proc/meminfo")));
  machine.set_kernel(Kernel());
  machine.set_operating_system(OperatingSystemOf(ReadOrEmpty("/etc/os-release")));
  machine.set_compiler(Compiler());
  return machine;
}

std::string DescribeMachine(const MachineInfo& machine) {
  std::string text = absl::StrCat(machine.cpu_model(), ", ", machine.num_logical_cores(),
                                  machine.num_logical_cores() == 1 ? " core" : " cores");
  if (machine.memory_bytes() > 0) absl::StrAppend(&text, ", ", FormatBytes(machine.memory_bytes()));
  if (!machine.gpus().empty()) absl::StrAppend(&text, ", ", DescribeGpus(machine));
  if (!machine.gpu_driver().empty()) absl::StrAppend(&text, ", driver ", machine.gpu_driver());
  return text;
}

std::string DescribeGpus(const MachineInfo& machine) {
  std::string text;
  const auto& gpus = machine.gpus();
  for (int begin = 0, end = 0; begin < gpus.size(); begin = end) {
    for (end = begin + 1; end < gpus.size() && gpus[end] == gpus[begin];) ++end;
    if (!text.empty()) text += ", ";
    if (end - begin > 1) absl::StrAppend(&text, end - begin, " x ");
    text += gpus[begin];
  }
  return text;
}

}  // namespace dpipe::report
