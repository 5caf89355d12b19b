#include "core/backend/choose_devices.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/host/usable_cpus.h"
#include "core/ops/cuda/engine_choices.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/environment.h"
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
  if (request.virtual_devices > 0 && request.backend != "cuda") {
    return absl::InvalidArgumentError(absl::StrCat(
        request.virtual_devices, " virtual devices are shares of a GPU: they need the ",
        "cuda backend, not ", request.backend));
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

absl::StatusOr<Devices> Gpus(const DeviceRequest& request, cuda::Driver* driver) {
  if (request.virtual_devices > 0) {
    return cuda::CreateVirtualCudaDevices(driver, request.virtual_devices);
  }
  DPIPE_ASSIGN_OR_RETURN(const std::vector<cuda::Gpu> gpus, driver->Gpus());
  if (request.num_local > 1) return SharedGpus(request, gpus, driver);
  return cuda::CreateCudaDevices(driver,
                                 request.count > 0 ? request.count : static_cast<int>(gpus.size()));
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

absl::StatusOr<ChosenDevices> Cpus(const DeviceRequest& request) {
  if (request.num_local > 1) return SharedCpus(request);
  const UsableCpus cpus = FindUsableCpus();
  ChosenDevices chosen;
  chosen.note = cpus.Note();
  DPIPE_ASSIGN_OR_RETURN(chosen.devices,
                         Device::PartitionCpu(request.count > 0 ? request.count : cpus.count));
  return chosen;
}

}  // namespace

namespace internal {

absl::StatusOr<ChosenDevices> ChooseDevices(
    const DeviceRequest& request, const std::function<absl::StatusOr<cuda::Driver*>()>& driver) {
  DPIPE_RETURN_IF_ERROR(Check(request));
  if (request.backend == "cpu") return Cpus(request);
  if (MayTalkOverNccl(request)) cuda::LoadKernelsAtOnce();
  absl::StatusOr<cuda::Driver*> found = driver();
  if (found.ok()) {
    const absl::Status fit = CheckCapabilities(*found);
    if (!fit.ok()) found = fit;
  }
  if (found.ok()) {
    DPIPE_RETURN_IF_ERROR(cuda::CheckPrecision());
    ChosenDevices chosen;
    DPIPE_ASSIGN_OR_RETURN(chosen.devices, Gpus(request, *found));
    // The thread that times an engine waits for its GPU. The GPU may wait over NCCL for another
    // one, and that one's thread may also want to time. Shares of one GPU only wait for enqueued
    // work.
    if (request.time_engines && request.virtual_devices == 0 && chosen.devices.size() > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("engines are to be timed on ", chosen.devices.size(),
                       " GPUs, which wait for each other: ",
                       "let a run on one of them time them, and give its file to all"));
    }
    ops::cuda::EngineChoices::OfProcess().set_deterministic(request.deterministic);
    if (!request.engines.empty()) {
      DPIPE_RETURN_IF_ERROR(ops::cuda::EngineChoices::OfProcess().Open(
          request.engines, request.time_engines, request.keeps_engines));
    }
    return chosen;
  }
  if (request.backend == "cuda") return found.status();
  DPIPE_ASSIGN_OR_RETURN(ChosenDevices chosen, Cpus(request));
  chosen.note = absl::StrCat(found.status().message(), "; the CPU is used",
                             chosen.note.empty() ? "" : "; ", chosen.note);
  return chosen;
}

}  // namespace internal

absl::StatusOr<ChosenDevices> ChooseDevices(const DeviceRequest& request) {
  return internal::ChooseDevices(request, cuda::SystemDriver);
}

}  // namespace dpipe
