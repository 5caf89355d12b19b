#include "core/tensor/device.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace dpipe {

std::vector<int> AllowedCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return {0};
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) cores.push_back(i);
  }
  return cores;
}

Device::Device(DeviceKind kind, std::string name, std::vector<int> cores)
    : kind_(kind),
      name_(std::move(name)),
      cores_(std::move(cores)),
      num_threads_(std::max<int>(1, static_cast<int>(cores_.size()))) {}

std::shared_ptr<Device> Device::Cpu(std::vector<int> cores) {
  const std::string name =
      cores.empty() ? std::string("cpu") : absl::StrCat("cpu:", absl::StrJoin(cores, "+"));
  return std::shared_ptr<Device>(new Device(DeviceKind::kCpu, name, std::move(cores)));
}

std::shared_ptr<Device> Device::CpuReference() {
  return std::shared_ptr<Device>(new Device(DeviceKind::kCpuReference, "cpu-reference", {}));
}

absl::StatusOr<std::vector<std::shared_ptr<Device>>> Device::PartitionCpu(int count) {
  const std::vector<int> cores = AllowedCores();
  if (count < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("asked for ", count, " CPU devices; at least 1 is needed"));
  }
  if (count > static_cast<int>(cores.size())) {
    return absl::InvalidArgumentError(absl::StrCat("asked for ", count, " CPU devices, but only ",
                                                   cores.size(), " cores may be used"));
  }
  // Even shares; cores that do not divide stay unused, since unequal devices would make unequal
  // stages.
  const int share = static_cast<int>(cores.size()) / count;
  std::vector<std::shared_ptr<Device>> devices;
  for (int i = 0; i < count; ++i) {
    devices.push_back(Cpu({cores.begin() + i * share, cores.begin() + (i + 1) * share}));
  }
  return devices;
}

std::shared_ptr<Device> Device::Twin() const {
  return std::shared_ptr<Device>(new Device(kind_, name_, cores_));
}

absl::Status Device::BindThread() const {
  omp_set_num_threads(num_threads_);
  if (cores_.empty()) return absl::OkStatus();
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : cores_) CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot pin a thread to ", name_, ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace dpipe
