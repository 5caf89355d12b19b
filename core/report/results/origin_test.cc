#include "core/report/results/origin.h"

#include <cstdint>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CaseResult OnGpu(const char* gpu) {
  CaseResult one;
  one.set_id(gpu);
  one.set_backend("cuda");
  one.mutable_machine()->set_cpu_model("Xeon");
  one.mutable_machine()->set_num_logical_cores(16);
  one.mutable_machine()->set_memory_bytes(int64_t{125} << 30);
  one.mutable_machine()->add_gpus(gpu);
  (*one.mutable_versions())["program"] = "1234";
  return one;
}

TEST(OriginTest, DifferencesHaveBothValues) {
  const CaseResult a = OnGpu("NVIDIA H200");
  CaseResult b = a;
  EXPECT_EQ(CodeDifference(a, b), "");
  EXPECT_EQ(MachineDifference(a, b), "");
  (*b.mutable_versions())["program"] = "other";
  b.mutable_machine()->set_kernel("Linux 6");
  EXPECT_EQ(CodeDifference(a, b), "program 1234 and other");
  EXPECT_EQ(MachineDifference(a, b), "kernel  and Linux 6");
}

TEST(OriginTest, MixedOriginsAreNamed) {
  Results results;
  for (const char* id : {"cpu.a", "cpu.b"}) *results.add_cases() = OnGpu(id);
  results.mutable_cases(1)->mutable_machine()->set_gpus(0, "cpu.a");
  EXPECT_THAT(MixedOrigins(results), IsEmpty());
  (*results.mutable_cases(1)->mutable_versions())["program"] = "5678";
  EXPECT_THAT(MixedOrigins(results),
              ElementsAre("cpu.b was measured separately from cpu.a: program 1234 and 5678"));
}

TEST(OriginTest, ClassesOfMachinesAreFileNames) {
  MachineInfo machine;
  machine.set_cpu_model("Intel(R) Xeon(R) Processor @ 2.30GHz");
  machine.set_num_logical_cores(2);
  machine.set_memory_bytes(int64_t{24} << 30);
  EXPECT_EQ(MachineClass(machine), "intel_r_xeon_r_processor_2_30ghz-2_cores-24_gib");
}

TEST(OriginTest, GpusMakeMachinesOfDifferentClasses) {
  const CaseResult h100 = OnGpu("NVIDIA H100 80GB HBM3"), h200 = OnGpu("NVIDIA H200");
  EXPECT_EQ(MachineClass(h100.machine()), "xeon-16_cores-nvidia_h100_80gb_hbm3");
  EXPECT_EQ(MachineClass(h200.machine()), "xeon-16_cores-nvidia_h200");
  EXPECT_EQ(MachineDifference(h100, h200), "GPUs NVIDIA H100 80GB HBM3 and NVIDIA H200");

  CaseResult rebooted = h100;
  rebooted.mutable_machine()->set_memory_bytes(int64_t{123} << 30);
  rebooted.mutable_machine()->set_gpu_driver("570.86.15");
  EXPECT_EQ(MachineClass(rebooted.machine()), MachineClass(h100.machine()));
  EXPECT_THAT(MachineDifference(h100, rebooted), HasSubstr("GPU driver unknown and 570.86.15"));

  // Results on the CPUs of the same machine need no GPU.
  CaseResult on_cpu = h100;
  on_cpu.mutable_machine()->clear_gpus();
  EXPECT_NE(MachineClass(on_cpu.machine()), MachineClass(h100.machine()));
  on_cpu.set_backend("cpu");
  EXPECT_EQ(MachineDifference(on_cpu, h100), "");
}

}  // namespace
}  // namespace dpipe::report
