#include "core/cuda/nvml_api.h"

#include "absl/strings/str_cat.h"
#include "core/base/host/shared_library.h"

namespace dpipe {
namespace {

absl::StatusOr<NvmlApi> Load() {
  DPIPE_ASSIGN_OR_RETURN(const SharedLibrary library,
                         SharedLibrary::Open({"libnvidia-ml.so.1"},
                                             "it comes with NVIDIA's driver and reports clocks"));
  NvmlApi api;
  DPIPE_RETURN_IF_ERROR(library.Bind("nvmlInit_v2", &api.Init));
  DPIPE_RETURN_IF_ERROR(library.Bind("nvmlSystemGetDriverVersion", &api.DriverVersion));
  DPIPE_RETURN_IF_ERROR(library.Bind("nvmlDeviceGetHandleByPciBusId_v2", &api.DeviceByPciBusId));
  DPIPE_RETURN_IF_ERROR(library.Bind("nvmlDeviceGetClockInfo", &api.ClockMhz));
  DPIPE_RETURN_IF_ERROR(library.Bind("nvmlDeviceGetMaxClockInfo", &api.MaxClockMhz));
  DPIPE_RETURN_IF_ERROR(
      library.Bind("nvmlDeviceGetCurrentClocksThrottleReasons", &api.ThrottleReasons));
  DPIPE_RETURN_IF_ERROR(library.Bind("nvmlDeviceGetTemperature", &api.Temperature));
  DPIPE_RETURN_IF_ERROR(library.Bind("nvmlDeviceGetPowerUsage", &api.PowerMilliwatts));
  const int error = api.Init();
  if (error != 0) return absl::InternalError(absl::StrCat("nvmlInit_v2 returned error ", error));
  return api;
}

}  // namespace

absl::StatusOr<const NvmlApi*> LoadNvml() {
  static const auto* const loaded = new absl::StatusOr<NvmlApi>(Load());
  if (!loaded->ok()) return loaded->status();
  return &**loaded;
}

}  // namespace dpipe
