#include "core/tensor/cpu_device.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/base/host/usable_cpus.h"
#include "core/tensor/add_up.h"

namespace dpipe {
namespace {

class PastEvent : public DeviceEvent {
 public:
  bool done() const override { return true; }
  Nanos time_ns() const override { return time_ns_; }

 private:
  const Nanos time_ns_ = MonotonicNow();
};

// Copies of 0 bytes may pass null pointers, which memcpy must not get.
void CopyAny(void* to, const void* from, int64_t size_bytes) {
  if (size_bytes > 0) std::memcpy(to, from, size_bytes);
}

}  // namespace

CpuDevice::CpuDevice(DeviceKind kind, std::string name, std::vector<int> cores, int num_threads)
    : Device(kind, std::move(name)), cores_(std::move(cores)), num_threads_(num_threads) {}

CpuDevice::CpuDevice(DeviceKind kind, std::string name, std::vector<int> cores)
    : Device(kind, std::move(name)),
      cores_(std::move(cores)),
      num_threads_(std::max<int>(1, static_cast<int>(cores_.size()))) {}

std::shared_ptr<Device> Device::Cpu(std::vector<int> cores) {
  const std::string name =
      cores.empty() ? std::string("cpu") : absl::StrCat("cpu:", absl::StrJoin(cores, "+"));
  return std::make_shared<CpuDevice>(DeviceKind::kCpu, name, std::move(cores));
}

std::shared_ptr<Device> Device::CpuReference() {
  return std::make_shared<CpuDevice>(DeviceKind::kCpuReference, "cpu-reference",
                                     std::vector<int>());
}

absl::StatusOr<std::vector<std::shared_ptr<Device>>> Device::PartitionCpu(int count) {
  return internal::PartitionCpus(count, FindUsableCpus());
}

namespace internal {

absl::StatusOr<std::vector<std::shared_ptr<Device>>> PartitionCpus(int count,
                                                                   const UsableCpus& cpus) {
  if (count < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("requested ", count, " CPU devices; at least 1 is needed"));
  }
  if (count > cpus.count) {
    const std::string note = cpus.Note();
    return absl::InvalidArgumentError(absl::StrCat("requested ", count, " CPU devices, but only ",
                                                   cpus.count, " cores are available",
                                                   note.empty() ? "" : ": ", note));
  }
  // Even shares. Cores that do not divide evenly stay unused, since unequal devices would make
  // unequal stages.
  const int share = cpus.count / count;
  std::vector<std::shared_ptr<Device>> devices;
  for (int i = 0; i < count; ++i) {
    if (cpus.is_limited()) {
      // Under a quota other programs share the cores, and equally many of them would be pinned to
      // the first ones. The system's scheduler knows which cores are free.
      devices.push_back(std::make_shared<CpuDevice>(DeviceKind::kCpu, absl::StrCat("cpu:any", i),
                                                    std::vector<int>(), share));
    } else {
      devices.push_back(
          Device::Cpu({cpus.cores.begin() + i * share, cpus.cores.begin() + (i + 1) * share}));
    }
  }
  return devices;
}

}  // namespace internal

std::shared_ptr<Device> CpuDevice::MakeSibling() const {
  return std::make_shared<CpuDevice>(kind(), name(), cores_, num_threads_);
}

absl::Status CpuDevice::BindThread() const {
  omp_set_num_threads(num_threads_);
  if (cores_.empty()) return absl::OkStatus();
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : cores_) CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot pin a thread to ", name(), ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

void CpuDevice::CopyFromHost(void* to, const void* host, int64_t size_bytes) {
  CopyAny(to, host, size_bytes);
}

void CpuDevice::CopyToHost(void* host, const void* from, int64_t size_bytes) {
  CopyAny(host, from, size_bytes);
}

void CpuDevice::CopyFromPeer(void* to, Device& peer, const void* from, int64_t size_bytes) {
  CopyAny(to, from, size_bytes);
}

void CpuDevice::FillZero(void* data, int64_t size_bytes) {
  if (size_bytes > 0) std::memset(data, 0, size_bytes);
}

void CpuDevice::Convert(void* to, DType to_dtype, const void* from, DType from_dtype,
                        int64_t count) {
  if (from_dtype == DType::kF32 && to_dtype == DType::kBf16) {
    const auto* const source = static_cast<const float*>(from);
    auto* const target = static_cast<Bf16*>(to);
    for (int64_t i = 0; i < count; ++i) target[i] = Bf16(source[i]);
  } else if (from_dtype == DType::kBf16 && to_dtype == DType::kF32) {
    const auto* const source = static_cast<const Bf16*>(from);
    auto* const target = static_cast<float*>(to);
    for (int64_t i = 0; i < count; ++i) target[i] = static_cast<float>(source[i]);
  } else {
    DPIPE_CHECK(false) << "no conversion from " << DTypeName(from_dtype) << " to "
                       << DTypeName(to_dtype);
  }
}

void CpuDevice::AddUp(absl::Span<const OrderedSum> sums) {
  for (const OrderedSum& sum : sums) dpipe::AddUp(sum);
}

std::shared_ptr<DeviceEvent> CpuDevice::RecordEvent() { return std::make_shared<PastEvent>(); }

}  // namespace dpipe
