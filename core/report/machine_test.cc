#include "core/report/machine.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::report {
namespace {

constexpr char kCpuInfo[] =
    "processor\t: 0\nmodel name\t: AMD EPYC 9B14\nphysical id\t: 0\ncore id\t\t: 0\n\n"
    "processor\t: 1\nmodel name\t: AMD EPYC 9B14\nphysical id\t: 0\ncore id\t\t: 0\n\n"
    "processor\t: 2\nmodel name\t: AMD EPYC 9B14\nphysical id\t: 1\ncore id\t\t: 0\n";

TEST(MachineTest, ReadsCpuInfo) {
  EXPECT_EQ(CpuModelOf(kCpuInfo), "AMD EPYC 9B14");
  EXPECT_EQ(NumPhysicalCoresOf(kCpuInfo), 2) << "two threads of one core are one core";
}

TEST(MachineTest, ArmAndNothing) {
  EXPECT_EQ(CpuModelOf("processor : 0\nModel : Raspberry Pi 5\n"), "Raspberry Pi 5");
  EXPECT_EQ(CpuModelOf(""), "unknown");
  EXPECT_EQ(NumPhysicalCoresOf(""), 0);
}

TEST(MachineTest, ReadsMemory) {
  EXPECT_EQ(MemoryBytesOf("MemTotal:       8139508 kB\nMemFree: 12 kB\n"), int64_t{8139508} * 1024);
  EXPECT_EQ(MemoryBytesOf("MemTotal: many\n"), 0);
}

TEST(MachineTest, ReadsOperatingSystem) {
  EXPECT_EQ(OperatingSystemOf("ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
            "Debian GNU/Linux 12 (bookworm)");
  EXPECT_EQ(OperatingSystemOf("ID=x"), "");
}

TEST(MachineTest, ThisMachineHasCores) {
  const MachineInfo machine = CollectMachineInfo();
  EXPECT_GE(machine.num_logical_cores(), 1);
  EXPECT_FALSE(machine.cpu_model().empty());
  EXPECT_THAT(machine.compiler(), ::testing::ContainsRegex("[0-9]+\\.[0-9]+"));
}

TEST(MachineTest, OneLine) {
  MachineInfo machine;
  machine.set_cpu_model("CPU");
  machine.set_num_logical_cores(2);
  machine.set_memory_bytes(int64_t{8} << 30);
  EXPECT_EQ(DescribeMachine(machine), "CPU, 2 cores, 8.0 GiB");
  EXPECT_EQ(DescribeGpus(machine), "");
  machine.add_gpus("NVIDIA H200");
  machine.set_gpu_driver("570.86.15");
  EXPECT_EQ(DescribeMachine(machine), "CPU, 2 cores, 8.0 GiB, NVIDIA H200, driver 570.86.15");
  machine.clear_gpus();
  for (const char* gpu : {"A", "A", "B"}) machine.add_gpus(gpu);
  EXPECT_EQ(DescribeGpus(machine), "2 x A, B");
}

}  // namespace
}  // namespace dpipe::report
