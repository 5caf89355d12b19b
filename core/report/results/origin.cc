#include "core/report/results/origin.h"

#include <cctype>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/report/machine.h"

namespace dpipe::report {
namespace {

constexpr char kUnknown[] = "unknown";

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

Facts FactsOf(const MachineInfo& machine, bool with_gpus) {
  Facts facts = {{"processor", machine.cpu_model()},
                 {"cores", absl::StrCat(machine.num_logical_cores())},
                 {"physical cores", absl::StrCat(machine.num_physical_cores())},
                 {"bytes of memory", absl::StrCat(machine.memory_bytes())},
                 {"kernel", machine.kernel()},
                 {"system", machine.operating_system()}};
  if (with_gpus && !machine.gpus().empty()) facts["GPUs"] = DescribeGpus(machine);
  if (with_gpus && !machine.gpu_driver().empty()) facts["GPU driver"] = machine.gpu_driver();
  return facts;
}

}  // namespace

std::string OriginText(const CaseResult& results) {
  const auto version = [&](const char* name) {
    const auto found = results.versions().find(name);
    return found == results.versions().end() ? std::string(kUnknown) : found->second;
  };
  return absl::StrCat(DescribeMachine(results.machine()), ". Revision ", version("revision"),
                      ", program ", version("program"), ", ", results.created(), ".");
}

std::string CodeDifference(const CaseResult& a, const CaseResult& b) {
  return Differences({a.versions().begin(), a.versions().end()},
                     {b.versions().begin(), b.versions().end()});
}

std::string MachineDifference(const CaseResult& a, const CaseResult& b) {
  // In a suite, cases on CPUs list no GPUs although cases beside them do.
  const bool with_gpus = a.backend() == b.backend();
  return Differences(FactsOf(a.machine(), with_gpus), FactsOf(b.machine(), with_gpus));
}

std::vector<std::string> MixedOrigins(const Results& results) {
  std::vector<std::string> mixed;
  for (const CaseResult& one : results.cases()) {
    const CaseResult& first = results.cases(0);
    std::string difference = CodeDifference(first, one);
    const std::string machine = MachineDifference(first, one);
    if (!machine.empty()) absl::StrAppend(&difference, difference.empty() ? "" : ", ", machine);
    if (difference.empty()) continue;
    mixed.push_back(
        absl::StrCat(one.id(), " was measured separately from ", first.id(), ": ", difference));
  }
  return mixed;
}

std::string MachineClass(const MachineInfo& machine) {
  // Results on GPUs depend on GPU memory, not on the host's. The host's varies by whole GiB from
  // boot to boot on such machines, because part of it is reserved for devices.
  const std::string last = machine.gpus().empty()
                               ? absl::StrCat(machine.memory_bytes() >> 30, " GiB")
                               : DescribeGpus(machine);
  const std::string text =
      absl::StrCat(machine.cpu_model(), "-", machine.num_logical_cores(), " cores-", last);
  std::string name;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) || c == '-';
    if (plain) name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (!plain && !name.empty() && name.back() != '_') name += '_';
  }
  return name;
}

}  // namespace dpipe::report
