#include "bench/transports/communication_ranks.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/backend/choose_devices.h"
#include "core/backend/connect_ranks.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/device_worker.h"

namespace dpipe::bench {

absl::StatusOr<std::vector<TrafficTime>> MeasureAllTraffic(Communicator* communicator,
                                                           const std::shared_ptr<Device>& device,
                                                           const CommunicationOptions& options) {
  std::vector<TrafficTime> times;
  for (Traffic traffic : AllTraffic()) {
    for (int64_t size : options.sizes_bytes) {
      auto time = MeasureTraffic(communicator, device, traffic, size, options.probe);
      if (!time.ok()) communicator->Abort(time.status());
      DPIPE_ASSIGN_OR_RETURN(times.emplace_back(), std::move(time));
    }
  }
  return times;
}

absl::StatusOr<CommunicationTimes> MeasureThreads(
    const std::string& transport, const std::vector<std::shared_ptr<Device>>& devices,
    const std::vector<std::unique_ptr<Communicator>>& communicators,
    const CommunicationOptions& options) {
  const auto workers = StartWorkers(devices);
  std::vector<DeviceWorker*> pointers;
  for (const auto& worker : workers) pointers.push_back(worker.get());
  CommunicationTimes measured{transport, static_cast<int>(devices.size()), {}};
  DPIPE_RETURN_IF_ERROR(FirstError(RunOnAll(pointers, [&](int rank) -> absl::Status {
    auto times = MeasureAllTraffic(communicators[rank].get(), devices[rank], options);
    if (times.ok() && rank == 0) measured.times = *std::move(times);
    return times.status();
  })));
  return measured;
}

absl::StatusOr<CommunicationTimes> MeasureProcesses(const std::string& backend,
                                                    absl::Duration deadline,
                                                    const CommunicationOptions& options,
                                                    ProcessGroup* processes) {
  DeviceRequest request;
  request.backend = backend;
  DPIPE_ASSIGN_OR_RETURN(const ChosenDevices chosen, ChooseDevicesTogether(request, processes));
  JobRank rank;
  rank.name = "communication";
  rank.rank = Rank(processes->process());
  rank.size = processes->num_processes();
  rank.device = chosen.devices[0];
  rank.deadline = deadline;
  const bool on_gpus = rank.device->kind() == DeviceKind::kCuda;
  CommunicationTimes measured{on_gpus ? "nccl" : "gloo", rank.size, {}};
  DeviceWorker worker(rank.device);
  worker.Start([&]() -> absl::Status {
    DPIPE_ASSIGN_OR_RETURN(const auto communicator, ConnectJobRank(&processes->store(), rank));
    DPIPE_ASSIGN_OR_RETURN(measured.times,
                           MeasureAllTraffic(communicator.get(), rank.device, options));
    return absl::OkStatus();
  });
  DPIPE_RETURN_IF_ERROR(worker.Wait());
  return measured;
}

absl::StatusOr<std::vector<std::shared_ptr<Device>>> CoresForRanks(int num_ranks) {
  std::vector<std::shared_ptr<Device>> devices;
  DeviceRequest request;
  request.num_local = num_ranks;
  for (request.local_process = 0; request.local_process < num_ranks; ++request.local_process) {
    DPIPE_ASSIGN_OR_RETURN(const ChosenDevices chosen, ChooseDevices(request));
    devices.push_back(chosen.devices[0]);
  }
  return devices;
}

absl::StatusOr<std::vector<std::shared_ptr<Device>>> GpusForNccl(
    const std::function<absl::StatusOr<cuda::Driver*>()>& driver) {
  DPIPE_ASSIGN_OR_RETURN(cuda::Driver* const found, driver());
  DPIPE_ASSIGN_OR_RETURN(const std::vector<cuda::Gpu> gpus, found->Gpus());
  if (gpus.size() < 2) {
    return absl::FailedPreconditionError(
        absl::StrCat("it refuses two ranks on one GPU, and ", cuda::DescribeGpus(gpus)));
  }
  return cuda::CreateCudaDevices(found, static_cast<int>(gpus.size()));
}

}  // namespace dpipe::bench
