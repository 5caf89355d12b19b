// A CPU whose memory the host cannot access, like a GPU's.
#ifndef DPIPE_TESTS_TESTLIB_FAR_CPU_H_
#define DPIPE_TESTS_TESTLIB_FAR_CPU_H_

#include <memory>

#include "core/tensor/cpu_device.h"

namespace dpipe::testlib {

class FarCpu : public CpuDevice {
 public:
  FarCpu() : CpuDevice(DeviceKind::kCpu, "far", {}, 1) {}
  std::shared_ptr<Device> MakeSibling() const override { return std::make_shared<FarCpu>(); }
  bool has_host_memory() const override { return false; }
};

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_FAR_CPU_H_
