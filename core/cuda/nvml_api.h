// NVML, NVIDIA's library to look at GPUs: clocks, heat, power. It comes with the driver and not
// with the toolkit, so what is used of it is declared here. Source: the NVML API reference.
#ifndef DPIPE_CORE_CUDA_NVML_API_H_
#define DPIPE_CORE_CUDA_NVML_API_H_

#include "core/base/status.h"

namespace dpipe {

// Functions return 0 where they have succeeded.
struct NvmlApi {
  using Device = void*;
  static constexpr int kSmClock = 1, kMemoryClock = 2;  // nvmlClockType_t
  static constexpr int kGpuTemperature = 0;             // nvmlTemperatureSensors_t

  int (*Init)() = nullptr;
  // Of the driver, "570.86.15", of which `size` characters are written at most.
  int (*DriverVersion)(char* version, unsigned size) = nullptr;
  int (*DeviceByPciBusId)(const char* id, Device* device) = nullptr;
  int (*ClockMhz)(Device device, int clock, unsigned* mhz) = nullptr;
  int (*MaxClockMhz)(Device device, int clock, unsigned* mhz) = nullptr;
  // Bits of why clocks are lower than they could be.
  int (*ThrottleReasons)(Device device, unsigned long long* reasons) = nullptr;
  int (*Temperature)(Device device, int sensor, unsigned* celsius) = nullptr;
  int (*PowerMilliwatts)(Device device, unsigned* milliwatts) = nullptr;
};

// Initialised. NotFound where there is no driver; Internal where NVML does not start.
absl::StatusOr<const NvmlApi*> LoadNvml();

}  // namespace dpipe

#endif  // DPIPE_CORE_CUDA_NVML_API_H_
