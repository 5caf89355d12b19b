#include "core/backend/choose_devices.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/count.h"
#include "core/base/host/usable_cpus.h"
#include "core/ops/cuda/engine_choices.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/system_driver.h"

namespace dpipe {
namespace {

using Devices = std::vector<std::shared_ptr<Device>>;

absl::Status Check(const DeviceRequest& request) {
  if (request.backend != "cpu" && request.backend != "cuda" && request.backend != "auto") {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown --backend=", request.backend, "; expected auto, cpu or cuda"));
  }
  if (request.count < 0 || request.virtual_devices < 0) {
    return absl::InvalidArgumentError(absl::StrCat(request.count, " devices and ",
                                                   request.virtual_devices,
                                                   " virtual devices must not be negative"));
  }
  if (request.local_process < 0 || request.local_process >= request.num_local) {
    return absl::InvalidArgumentError(absl::StrCat("there is no process ", request.local_process,
                                                   " among the ", request.num_local,
                                                   " of this host, which count from 0"));
  }
  if (request.virtual_devices > 0 && request.backend == "cpu") {
    return absl::InvalidArgumentError(
        absl::StrCat(request.virtual_devices,
                     " virtual devices are shares of a GPU: they need --backend=cuda, not cpu"));
  }
  if (request.virtual_devices > 0 && request.num_local > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        request.virtual_devices, " virtual devices of each of ", request.num_local,
        " processes: a GPU's shares belong to one process; threads of one can have all of them"));
  }
  if (request.time_engines && request.engines.empty()) {
    return absl::InvalidArgumentError(
        "engines are to be timed, but there is no file for what is chosen");
  }
  if (request.virtual_devices > 0 && request.count > 0 &&
      request.count != request.virtual_devices) {
    return absl::InvalidArgumentError(absl::StrCat("requested ", request.count, " devices and ",
                                                   request.virtual_devices,
                                                   " virtual ones; they must be equal"));
  }
  return absl::OkStatus();
}

// Judged from this request alone; jobs of several hosts are handled in choose_together.cc.
bool MayTalkOverNccl(const DeviceRequest& request) {
  return request.virtual_devices == 0 && (request.count != 1 || request.num_local > 1);
}

// Returns this process's share of the GPUs that it sees.
absl::StatusOr<Devices> SharedGpus(const DeviceRequest& request, const std::vector<cuda::Gpu>& gpus,
                                   cuda::Driver* driver) {
  const int own = std::max(1, request.count), seen = static_cast<int>(gpus.size());
  if (own * request.num_local <= seen) {
    return cuda::CreateCudaDevices(driver, own, own * request.local_process);
  }
  if (own == seen) return cuda::CreateCudaDevices(driver, own);
  return absl::InvalidArgumentError(absl::StrCat(request.num_local, " processes of this host with ",
                                                 own, " GPU(s) each need ", own * request.num_local,
                                                 ", but ", cuda::DescribeGpus(gpus)));
}

// The A100's; kernels are built for it and newer GPUs.
constexpr int kMinCapability = 8;

absl::Status CheckCapabilities(cuda::Driver* driver) {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<cuda::Gpu> gpus, driver->Gpus());
  for (const cuda::Gpu& gpu : gpus) {
    if (gpu.capability_major >= kMinCapability) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "GPU ", gpu.index, " (", gpu.name, ") has compute capability ", gpu.capability_major, ".",
        gpu.capability_minor, ", and ", kMinCapability,
        ".0 or newer is needed; where there are others, CUDA_VISIBLE_DEVICES can hide it"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Devices> UsableGpus(
    const DeviceRequest& request,
    const std::function<absl::StatusOr<cuda::Driver*>()>& find_driver) {
  DPIPE_ASSIGN_OR_RETURN(cuda::Driver* const driver, find_driver());
  DPIPE_RETURN_IF_ERROR(CheckCapabilities(driver));
  DPIPE_RETURN_IF_ERROR(cuda::CheckPrecision());
  if (request.virtual_devices > 0) {
    return cuda::CreateVirtualCudaDevices(driver, request.virtual_devices);
  }
  DPIPE_ASSIGN_OR_RETURN(const std::vector<cuda::Gpu> gpus, driver->Gpus());
  if (request.num_local > 1) return SharedGpus(request, gpus, driver);
  const int seen = static_cast<int>(gpus.size());
  auto devices = cuda::CreateCudaDevices(driver, request.count > 0 ? request.count : seen);
  if (devices.ok() || request.count <= seen || request.backend != "auto") return devices;
  return absl::Status(devices.status().code(),
                      absl::StrCat(devices.status().message(), "; --devices=", seen,
                                   " would use what there is, and --virtual_devices=",
                                   request.count, " as many shares of one GPU"));
}

// Returns this process's share of the cores.
absl::StatusOr<ChosenDevices> SharedCpus(const DeviceRequest& request) {
  const int own = std::max(1, request.count), all = own * request.num_local;
  const int first = own * request.local_process;
  const UsableCpus cpus = FindUsableCpus();
  ChosenDevices chosen;
  chosen.note = cpus.Note();
  if (all <= cpus.count) {
    DPIPE_ASSIGN_OR_RETURN(const Devices devices, Device::PartitionCpu(all));
    chosen.devices.assign(devices.begin() + first, devices.begin() + first + own);
    return chosen;
  }
  chosen.note = absl::StrCat(all, " devices of ", request.num_local, " processes share ",
                             cpus.count, " cores", chosen.note.empty() ? "" : ": ", chosen.note);
  for (int i = first; i < first + own; ++i) {
    chosen.devices.push_back(cpus.is_limited() ? Device::Cpu()
                                               : Device::Cpu({cpus.cores[i % cpus.cores.size()]}));
  }
  return chosen;
}

absl::StatusOr<ChosenDevices> Cpus(const DeviceRequest& request, const std::string& reason) {
  ChosenDevices chosen;
  if (request.num_local > 1) {
    DPIPE_ASSIGN_OR_RETURN(chosen, SharedCpus(request));
  } else {
    const UsableCpus cpus = FindUsableCpus();
    chosen.note = cpus.Note();
    DPIPE_ASSIGN_OR_RETURN(chosen.devices,
                           Device::PartitionCpu(request.count > 0 ? request.count : cpus.count));
  }
  chosen.reason = reason;
  return chosen;
}

// For auto if GPUs cannot be used because of `obstacle`.
absl::StatusOr<ChosenDevices> CpusInsteadOf(const DeviceRequest& request,
                                            absl::string_view obstacle) {
  const std::string reason =
      absl::StrCat("no GPU can be used: ", absl::StripPrefix(obstacle, "no GPU: "));
  absl::StatusOr<ChosenDevices> chosen = Cpus(request, reason);
  if (chosen.ok()) return chosen;
  return absl::Status(chosen.status().code(),
                      absl::StrCat(chosen.status().message(), "; ", reason));
}

}  // namespace

namespace internal {

absl::StatusOr<ChosenDevices> ChooseDevices(
    const DeviceRequest& request, const std::function<absl::StatusOr<cuda::Driver*>()>& driver) {
  DPIPE_RETURN_IF_ERROR(Check(request));
  if (request.backend == "cpu") return Cpus(request, "--backend=cpu");
  if (MayTalkOverNccl(request)) cuda::LoadKernelsAtOnce();
  absl::StatusOr<Devices> gpus = UsableGpus(request, driver);
  if (!gpus.ok() && (request.backend == "cuda" || request.virtual_devices > 0)) {
    return gpus.status();
  }
  if (!gpus.ok()) return CpusInsteadOf(request, gpus.status().message());
  // The thread that times an engine waits for its GPU. The GPU may wait over NCCL for another
  // one, and that one's thread may also want to time. Shares of one GPU only wait for enqueued
  // work.
  if (request.time_engines && request.virtual_devices == 0 && gpus->size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "engines are to be timed on ", gpus->size(), " GPUs, which wait for each other: ",
        "let a run on one of them time them, and give its file to all"));
  }
  ops::cuda::EngineChoices::OfProcess().set_deterministic(request.deterministic);
  if (!request.engines.empty()) {
    DPIPE_RETURN_IF_ERROR(ops::cuda::EngineChoices::OfProcess().Open(
        request.engines, request.time_engines, request.keeps_engines));
  }
  ChosenDevices chosen;
  chosen.devices = *std::move(gpus);
  chosen.reason = request.backend == "cuda" ? "--backend=cuda" : "--backend=auto found a GPU";
  return chosen;
}

}  // namespace internal

absl::StatusOr<ChosenDevices> ChooseDevices(const DeviceRequest& request) {
  return internal::ChooseDevices(request, cuda::SystemDriver);
}

std::string DescribeDevices(const ChosenDevices& chosen) {
  Device& first = *chosen.devices[0];
  const size_t count = chosen.devices.size();
  std::string text;
  if (first.kind() == DeviceKind::kCuda) {
    text = absl::StrCat(Count(count, "GPU"), count == 1 ? ", " : ", the first ", first.name(), ", ",
                        cuda::CudaDeviceOf(first).gpu().name);
  } else {
    text = absl::StrCat(Count(count, "CPU device"), " of ", Count(first.num_threads(), "core"),
                        count == 1 ? "" : " each");
  }
  absl::StrAppend(&text, " (", chosen.reason, ")");
  if (!chosen.note.empty()) absl::StrAppend(&text, "; ", chosen.note);
  return text;
}

namespace {

// A process's description of its devices: one line per device, then the reason for them.
struct Described {
  std::vector<std::string> gpus;   // PCI bus ids; "" for a CPU
  std::vector<std::string> names;  // "cuda:1 (NVIDIA H200)"
  std::string reason;

  bool has_gpus() const { return !gpus[0].empty(); }
  // Human-readable: "cuda:0 (NVIDIA H200)", "cpu (no GPU can be used: ...)".
  std::string Words() const {
    const std::string all = absl::StrJoin(names, ", ");
    return has_gpus() ? all : absl::StrCat(all, " (", reason, ")");
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
  return absl::StrCat(text, absl::StrReplaceAll(chosen.reason, {{"\n", " "}}));
}

Described Parse(const std::string& text) {
  Described described;
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  described.reason = std::move(lines.back());
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

// Returns "" in all processes if the devices go together, or in all the reason why not.
absl::StatusOr<std::string> Obstacle(const ChosenDevices& chosen, ProcessGroup* processes) {
  constexpr char kWhat[] = "whether the devices go together";
  StoreClient& store = processes->store();
  const std::string key = absl::StrCat("devices/", processes->NextNumber(), "/");
  const std::string own = Describe(chosen);
  if (!processes->is_leader()) {
    DPIPE_RETURN_IF_ERROR(store.SendNote(0, absl::StrCat(key, processes->process()), own));
    return processes->FromLeader(kWhat, "");
  }
  std::vector<Described> all = {Parse(own)};
  for (int p = 1; p < processes->num_processes(); ++p) {
    DPIPE_ASSIGN_OR_RETURN(
        const std::string text,
        store.TakeNote(absl::StrCat(key, p), absl::StrCat("the devices of ", store.NameOf(p))));
    all.push_back(Parse(text));
  }
  const absl::Status fit = Check(store, all);
  return processes->FromLeader(kWhat, std::string(fit.message()));
}

// Returns this process's devices if they go together with the others'. If not and all may use
// their CPUs instead, all do.
absl::StatusOr<ChosenDevices> ChooseAndCheck(
    const DeviceRequest& own, ProcessGroup* processes,
    const std::function<absl::StatusOr<cuda::Driver*>()>& driver) {
  if (own.time_engines && processes->num_processes() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "engines are to be timed by ", processes->num_processes(), " processes, each of which ",
        "would choose for itself: let one process time them, and give its file to all"));
  }
  absl::StatusOr<ChosenDevices> chosen = internal::ChooseDevices(own, driver);
  if (!chosen.ok()) {
    return absl::Status(chosen.status().code(),
                        absl::StrCat(processes->store().NameOf(processes->process()), ": ",
                                     chosen.status().message()));
  }
  DPIPE_ASSIGN_OR_RETURN(std::string obstacle, Obstacle(*chosen, processes));
  if (!obstacle.empty() && own.backend == "auto") {
    DPIPE_ASSIGN_OR_RETURN(chosen, CpusInsteadOf(own, obstacle));
    DPIPE_ASSIGN_OR_RETURN(obstacle, Obstacle(*chosen, processes));
  }
  if (!obstacle.empty()) return absl::FailedPreconditionError(obstacle);
  return chosen;
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
  absl::StatusOr<ChosenDevices> chosen = ChooseAndCheck(own, processes, driver);
  if (!chosen.ok()) processes->store().Fail(chosen.status());
  return chosen;
}

}  // namespace internal

absl::StatusOr<ChosenDevices> ChooseDevicesTogether(const DeviceRequest& request,
                                                    ProcessGroup* processes) {
  return internal::ChooseDevicesTogether(request, processes, cuda::SystemDriver);
}

}  // namespace dpipe
