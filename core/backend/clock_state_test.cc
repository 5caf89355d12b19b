#include <cstring>

#include "core/backend/device_report.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

// An NVML with one GPU, which is at its power limit.
NvmlApi FakeNvml() {
  NvmlApi api;
  api.DeviceByPciBusId = [](const char* id, NvmlApi::Device*) {
    return std::strcmp(id, "0000:01:00.0") == 0 ? 0 : 6;
  };
  api.ClockMhz = [](NvmlApi::Device, int clock, unsigned* mhz) {
    *mhz = clock == NvmlApi::kSmClock ? 1410 : 2619;
    return 0;
  };
  api.MaxClockMhz = [](NvmlApi::Device, int clock, unsigned* mhz) {
    *mhz = 1980;
    return clock == NvmlApi::kSmClock ? 0 : 3;
  };
  api.ThrottleReasons = [](NvmlApi::Device, unsigned long long* reasons) {
    *reasons = 0x4 | 0x1;  // 0x1 is idle, which slows nothing
    return 0;
  };
  api.Temperature = [](NvmlApi::Device, int, unsigned* celsius) {
    *celsius = 63;
    return 0;
  };
  api.PowerMilliwatts = [](NvmlApi::Device, unsigned* milliwatts) {
    *milliwatts = 699600;
    return 0;
  };
  return api;
}

TEST(ClockStateTest, GpuTellsClocksHeatPowerAndWhatSlowsIt) {
  EXPECT_EQ(internal::GpuClockState(FakeNvml(), "0000:01:00.0"),
            "multiprocessors at 1410 of 1980 MHz, memory at 2619 MHz, 63 C, 700 W; slowed by "
            "power limit");
}

TEST(ClockStateTest, WhatIsNotToldIsLeftOut) {
  NvmlApi api = FakeNvml();
  api.PowerMilliwatts = [](NvmlApi::Device, unsigned*) { return 3; };
  api.ThrottleReasons = [](NvmlApi::Device, unsigned long long*) { return 3; };
  EXPECT_EQ(internal::GpuClockState(api, "0000:01:00.0"),
            "multiprocessors at 1410 of 1980 MHz, memory at 2619 MHz, 63 C");
  EXPECT_THAT(internal::GpuClockState(api, "0000:02:00.0"),
              HasSubstr("NVML does not know GPU 0000:02:00.0 (error 6)"));
}

TEST(ClockStateTest, CpuTellsItsCoresAndGovernor) {
  EXPECT_EQ(internal::CpuClockState("cpu MHz\t\t: 2299.998\nflags : x\ncpu MHz : 2300.1\n", ""),
            "cores at 2300 MHz");
  EXPECT_EQ(internal::CpuClockState("cpu MHz : 800.0\ncpu MHz : 3500\n", "powersave\n"),
            "cores at 800 to 3500 MHz, governor powersave");
  EXPECT_EQ(internal::CpuClockState("", ""), "clocks not told");
}

TEST(ClockStateTest, ThisMachineHasALine) { EXPECT_FALSE(ClockState(*Device::Cpu()).empty()); }

}  // namespace
}  // namespace dpipe
