#include "tools/sampling/sampling_devices.h"

#include "absl/strings/str_cat.h"
#include "core/backend/choose_devices.h"

namespace dpipe::tools {

absl::StatusOr<SamplingDevices> SamplingDevices::Start(
    const std::string& backend, int count, const std::function<void(const std::string&)>& say) {
  DeviceRequest request;
  request.backend = backend;
  request.count = count;
  DPIPE_ASSIGN_OR_RETURN(const ChosenDevices chosen, ChooseDevices(request));
  say(absl::StrCat("Device:   ", DescribeDevices(chosen)));
  SamplingDevices devices;
  devices.owners_ = StartWorkers(chosen.devices);
  for (const auto& worker : devices.owners_) devices.workers_.push_back(worker.get());
  return devices;
}

}  // namespace dpipe::tools
