// NVML, NVIDIA's library for monitoring GPUs: clocks, temperature, power. It comes with the driver
// and not with the toolkit, so the functions used are declared here. Source: the NVML API
// reference.
#ifndef DPIPE_CORE_CUDA_NVML_API_H_
#define DPIPE_CORE_CUDA_NVML_API_H_

#include "core/base/status.h"

namespace dpipe {

// Functions return 0 on success.
struct NvmlApi {
  using Device = void*;
  static constexpr int kSmClock = 1, kMemoryClock = 2;  // nvmlClockType_t
  static constexpr int kGpuTemperature = 0;             // nvmlTemperatureSensors_t

  int (*Init)() = nullptr;
  // Writes the driver's version, such as "570.86.15", at most `size` characters.
  int (*DriverVersion)(char* version, unsigned size) = nullptr;
  int (*DeviceByPciBusId)(const char* id, Device* device) = nullptr;
  int (*ClockMhz)(Device device, int clock, unsigned* mhz) = nullptr;
  int (*MaxClockMhz)(Device device, int clock, unsigned* mhz) = nullptr;
  // Writes a bit mask of reasons why clocks are below their maximum.
  int (*ThrottleReasons)(Device device, unsigned long long* reasons) = nullptr;
  int (*Temperature)(Device device, int sensor, unsigned* celsius) = nullptr;
  int (*PowerMilliwatts)(Device device, unsigned* milliwatts) = nullptr;
};

// Returns the function table, with NVML initialised. NotFound if there is no driver, Internal if
// NVML does not start.
absl::StatusOr<const NvmlApi*> LoadNvml();

}  // namespace dpipe

#endif  // DPIPE_CORE_CUDA_NVML_API_H_
