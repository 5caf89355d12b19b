#include "core/backend/choose_together.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/environment.h"
#include "core/tensor/cuda/system_driver.h"

namespace dpipe {
namespace {

// A process's description of its devices: one line per device, then its note.
struct Described {
  std::vector<std::string> gpus;   // PCI bus ids; "" for a CPU
  std::vector<std::string> names;  // "cuda:1 (NVIDIA H200)"
  std::string note;

  bool has_gpus() const { return !gpus[0].empty(); }
  // Human-readable: "cuda:0 (NVIDIA H200)", "cpu (no GPU: ...; the CPU is used)".
  std::string Words() const {
    return absl::StrCat(absl::StrJoin(names, ", "), note.empty() ? "" : " (", note,
                        note.empty() ? "" : ")");
  }
};

std::string Describe(const ChosenDevices& chosen) {
  std::string text;
  for (const auto& device : chosen.devices) {
    if (device->kind() != DeviceKind::kCuda) {
      absl::StrAppend(&text, "\t", device->name(), "\n");
      continue;
    }
    const cuda::Gpu& gpu = cuda::CudaDeviceOf(*device).gpu();
    absl::StrAppend(&text, gpu.pci_bus_id, "\t", device->name(), " (", gpu.name, ")\n");
  }
  return absl::StrCat(text, absl::StrReplaceAll(chosen.note, {{"\n", " "}}));
}

Described Parse(const std::string& text) {
  Described described;
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  described.note = std::move(lines.back());
  lines.pop_back();
  for (const std::string& line : lines) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(line, absl::MaxSplits('\t', 1));
    described.gpus.push_back(parts.first);
    described.names.push_back(parts.second);
  }
  return described;
}

// Checks that the devices go together; `all` is indexed by process.
absl::Status Check(const StoreClient& store, const std::vector<Described>& all) {
  std::map<std::pair<std::string, std::string>, int> owners;  // by host and GPU
  for (int p = 0; p < static_cast<int>(all.size()); ++p) {
    const auto refuse = [&](int other, const std::string& why) {
      return absl::FailedPreconditionError(
          absl::StrCat(store.NameOf(other), " has ", all[other].Words(), ", and ", store.NameOf(p),
                       " has ", all[p].Words(), ": ", why));
    };
    if (all[p].has_gpus() != all[0].has_gpus()) {
      return refuse(0, "all processes of a job train on GPUs, or all on CPUs");
    }
    if (all[p].names.size() != all[0].names.size()) {
      return refuse(0, "all processes of a job have as many devices");
    }
    for (const std::string& gpu : all[p].gpus) {
      if (gpu.empty()) continue;
      const auto [owner, is_new] = owners.emplace(std::make_pair(store.HostOf(p), gpu), p);
      if (is_new) continue;
      if (owner->second == p) {
        return absl::FailedPreconditionError(
            absl::StrCat(store.NameOf(p), " has ", all[p].Words(),
                         ": only a process that trains alone can have shares of a GPU"));
      }
      return refuse(owner->second, absl::StrCat("both are GPU ", gpu, " of ", store.HostOf(p),
                                                ", whose processes need a GPU each"));
    }
  }
  return absl::OkStatus();
}

absl::Status Agree(const ChosenDevices& chosen, ProcessGroup* processes) {
  StoreClient& store = processes->store();
  const std::string key = absl::StrCat("devices/", processes->NextNumber(), "/");
  const std::string own = Describe(chosen);
  if (!processes->is_leader()) {
    DPIPE_RETURN_IF_ERROR(store.SendNote(0, absl::StrCat(key, processes->process()), own));
    return processes->FromLeader("that the devices go together", "").status();
  }
  std::vector<Described> all = {Parse(own)};
  for (int p = 1; p < processes->num_processes(); ++p) {
    DPIPE_ASSIGN_OR_RETURN(
        const std::string text,
        store.TakeNote(absl::StrCat(key, p), absl::StrCat("the devices of ", store.NameOf(p))));
    all.push_back(Parse(text));
  }
  DPIPE_RETURN_IF_ERROR(Check(store, all));
  return processes->FromLeader("that the devices go together", "").status();
}

}  // namespace

namespace internal {

absl::StatusOr<ChosenDevices> ChooseDevicesTogether(
    const DeviceRequest& request, ProcessGroup* processes,
    const std::function<absl::StatusOr<cuda::Driver*>()>& driver) {
  DeviceRequest own = request;
  if (request.virtual_devices == 0) own.count = std::max(1, request.count);
  own.local_process = processes->address().local_process;
  own.num_local = processes->address().num_local;
  if (processes->num_processes() > 1 && own.backend != "cpu") cuda::LoadKernelsAtOnce();
  StoreClient& store = processes->store();
  absl::StatusOr<ChosenDevices> chosen = absl::InvalidArgumentError(absl::StrCat(
      "engines are to be timed by ", processes->num_processes(), " processes, each of which would ",
      "choose for itself: let one process time them, and give its file to all"));
  if (!own.time_engines || processes->num_processes() == 1) chosen = ChooseDevices(own, driver);
  if (!chosen.ok()) {
    chosen = absl::Status(chosen.status().code(), absl::StrCat(store.NameOf(processes->process()),
                                                               ": ", chosen.status().message()));
  }
  const absl::Status agreed = chosen.ok() ? Agree(*chosen, processes) : chosen.status();
  if (agreed.ok()) return chosen;
  store.Fail(agreed);
  return agreed;
}

}  // namespace internal

absl::StatusOr<ChosenDevices> ChooseDevicesTogether(const DeviceRequest& request,
                                                    ProcessGroup* processes) {
  return internal::ChooseDevicesTogether(request, processes, cuda::SystemDriver);
}

}  // namespace dpipe
