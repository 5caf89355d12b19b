// The devices of programs that only draw pictures.
#ifndef DPIPE_TOOLS_SAMPLING_SAMPLING_DEVICES_H_
#define DPIPE_TOOLS_SAMPLING_SAMPLING_DEVICES_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/tensor/device_worker.h"

namespace dpipe::tools {

class SamplingDevices {
 public:
  // Starts `count` devices of `backend` (see DeviceRequest; 0: all of them), and says which ones
  // and why. Returns ChooseDevices' errors.
  static absl::StatusOr<SamplingDevices> Start(const std::string& backend, int count,
                                               const std::function<void(const std::string&)>& say);

  const std::vector<DeviceWorker*>& workers() const { return workers_; }

 private:
  std::vector<std::unique_ptr<DeviceWorker>> owners_;
  std::vector<DeviceWorker*> workers_;
};

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_SAMPLING_SAMPLING_DEVICES_H_
