#include "core/backend/device_report.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/files/file.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/system_driver.h"

namespace dpipe {
namespace internal {
namespace {

// Bits of nvmlClocksThrottleReasons that mean a limit. Idle and the application's own settings are
// not among them.
const std::vector<std::pair<unsigned long long, const char*>>& SlowingReasons() {
  static const auto* const reasons = new std::vector<std::pair<unsigned long long, const char*>>{
      {0x4, "power limit"},           {0x8, "hardware slowdown"},
      {0x20, "thermal limit"},        {0x40, "hardware thermal slowdown"},
      {0x80, "hardware power brake"},
  };
  return *reasons;
}

std::string Clock(const NvmlApi& api, NvmlApi::Device device, int clock, const char* name) {
  unsigned now = 0, most = 0;
  if (api.ClockMhz(device, clock, &now) != 0) return "";
  if (api.MaxClockMhz(device, clock, &most) != 0) return absl::StrCat(name, " at ", now, " MHz");
  return absl::StrCat(name, " at ", now, " of ", most, " MHz");
}

std::string SlowedBy(const NvmlApi& api, NvmlApi::Device device) {
  unsigned long long bits = 0;
  if (api.ThrottleReasons(device, &bits) != 0) return "";
  std::vector<std::string> names;
  for (const auto& [bit, name] : SlowingReasons()) {
    if ((bits & bit) != 0) names.push_back(name);
  }
  return names.empty() ? "" : absl::StrCat("; slowed by ", absl::StrJoin(names, ", "));
}

std::string JoinTold(std::vector<std::string> parts) {
  parts.erase(std::remove(parts.begin(), parts.end(), ""), parts.end());
  return parts.empty() ? "clocks not told" : absl::StrJoin(parts, ", ");
}

}  // namespace

std::string GpuClockState(const NvmlApi& api, const std::string& pci_bus_id) {
  NvmlApi::Device device = nullptr;
  const int error = api.DeviceByPciBusId(pci_bus_id.c_str(), &device);
  if (error != 0) {
    return absl::StrCat("clocks not told: NVML does not know GPU ", pci_bus_id, " (error ", error,
                        ")");
  }
  unsigned celsius = 0, milliwatts = 0;
  const bool has_heat = api.Temperature(device, NvmlApi::kGpuTemperature, &celsius) == 0;
  const bool has_power = api.PowerMilliwatts(device, &milliwatts) == 0;
  return JoinTold({Clock(api, device, NvmlApi::kSmClock, "multiprocessors"),
                   Clock(api, device, NvmlApi::kMemoryClock, "memory"),
                   has_heat ? absl::StrCat(celsius, " C") : "",
                   has_power ? absl::StrFormat("%.0f W", milliwatts / 1000.0) : ""}) +
         SlowedBy(api, device);
}

std::string CpuClockState(absl::string_view cpuinfo, absl::string_view governor) {
  double slowest = 0, fastest = 0;
  for (absl::string_view line : absl::StrSplit(cpuinfo, '\n')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
    double mhz = 0;
    if (parts.size() != 2 || absl::StripAsciiWhitespace(parts[0]) != "cpu MHz" ||
        !absl::SimpleAtod(parts[1], &mhz)) {
      continue;
    }
    slowest = fastest == 0 ? mhz : std::min(slowest, mhz);
    fastest = std::max(fastest, mhz);
  }
  const bool alike = fastest - slowest < 0.5;
  const std::string cores = fastest == 0 ? ""
                            : alike
                                ? absl::StrFormat("cores at %.0f MHz", fastest)
                                : absl::StrFormat("cores at %.0f to %.0f MHz", slowest, fastest);
  const absl::string_view name = absl::StripAsciiWhitespace(governor);
  return JoinTold({cores, name.empty() ? "" : absl::StrCat("governor ", name)});
}

}  // namespace internal

std::string ClockState(Device& device) {
  if (device.kind() == DeviceKind::kCuda && !device.has_host_memory()) {
    const auto nvml = LoadNvml();
    if (!nvml.ok()) return absl::StrCat("clocks not told: ", nvml.status().message());
    return internal::GpuClockState(**nvml, cuda::CudaDeviceOf(device).gpu().pci_bus_id);
  }
  return internal::CpuClockState(
      ReadFile("/proc/cpuinfo").value_or(""),
      ReadFile("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").value_or(""));
}

namespace internal {

GpuNames NamesOfGpus(const std::function<absl::StatusOr<cuda::Driver*>()>& driver,
                     const std::function<absl::StatusOr<const NvmlApi*>()>& nvml) {
  GpuNames names;
  const auto found = driver();
  if (!found.ok()) return names;
  const auto gpus = (*found)->Gpus();
  if (!gpus.ok()) return names;
  for (const cuda::Gpu& gpu : *gpus) names.gpus.push_back(gpu.name);
  const auto api = nvml();
  char version[96] = {};  // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE is 80
  if (api.ok() && (*api)->DriverVersion(version, sizeof(version) - 1) == 0) names.driver = version;
  return names;
}

}  // namespace internal

const GpuNames& ThisMachinesGpus() {
  static const auto* const kNames =
      new GpuNames(internal::NamesOfGpus(cuda::SystemDriver, LoadNvml));
  return *kNames;
}

}  // namespace dpipe
