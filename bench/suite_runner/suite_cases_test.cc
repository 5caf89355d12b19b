#include "bench/suite_runner/suite_cases.h"

#include "absl/strings/str_cat.h"
#include "bench/suite_runner/suite_backends.h"
#include "core/schedule/file_formats/plan_io.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<std::vector<SuiteCase>> Expand(const std::string& text) {
  Suite suite;
  const absl::Status status = ParseTextProto("name: 'small' " + text, "test", &suite);
  EXPECT_TRUE(status.ok()) << status;
  return ExpandSuite(suite);
}

constexpr char kGroup[] =
    "groups { backends: 'cpu' models { name: 'tiny_sd' } models { name: 'tiny_cdm' } "
    "strategies: ['gpipe', 'schedule=gpipe,frozen=fill'] devices: [1, 2] global_batches: [8, 16] "
    "repeats: 3 ";

TEST(SuiteCasesTest, EveryCombinationIsACase) {
  const auto cases = Expand(absl::StrCat(kGroup, "}"));
  ASSERT_TRUE(cases.ok()) << cases.status();
  std::vector<std::string> ids;
  for (const SuiteCase& one : *cases) ids.push_back(one.id);
  EXPECT_THAT(ids,
              ElementsAre("cpu.tiny_sd.1_device.batch_8", "cpu.tiny_sd.2_devices.batch_8",
                          "cpu.tiny_sd.1_device.batch_16", "cpu.tiny_sd.2_devices.batch_16",
                          "cpu.tiny_cdm.1_device.batch_8", "cpu.tiny_cdm.2_devices.batch_8",
                          "cpu.tiny_cdm.1_device.batch_16", "cpu.tiny_cdm.2_devices.batch_16"));
  EXPECT_EQ((*cases)[0].settings.repeats(), 3);
  EXPECT_EQ((*cases)[0].settings.profiles(), 3) << "one a turn, where nothing is said";
  EXPECT_EQ((*cases)[0].settings.dtype(), "fp32");
}

TEST(SuiteCasesTest, ClustersArePlacesOfBackendsThatAreNotHere) {
  const auto cases = Expand(
      "groups { backends: ['simulated', 'emulated'] models { name: 'm' profile: 'p.textproto' } "
      "strategies: 'gpipe' clusters: 'data/clusters/a100_8x1.textproto' global_batches: 64 }");
  ASSERT_TRUE(cases.ok()) << cases.status();
  ASSERT_EQ(cases->size(), 2u);
  EXPECT_EQ((*cases)[1].id, "emulated.m.a100_8x1.batch_64");
  EXPECT_EQ((*cases)[1].num_devices, 0);
}

TEST(SuiteCasesTest, ErrorsNameTheirGroup) {
  struct Wrong {
    const char* text;
    const char* message;
  };
  for (const Wrong& wrong : std::vector<Wrong>{
           {"groups { }", "suite small, group 1: backends, models, strategies"},
           {"groups { backends: 'tpu' models { name: 'm' } strategies: 'gpipe' devices: 1 "
            "global_batches: 1 }",
            "unknown backend 'tpu'; there are cpu, simulated, emulated, cuda"},
           {"groups { backends: 'cpu' models { name: 'm' } strategies: 'gpip' devices: 1 "
            "global_batches: 1 }",
            "gpip"},
           {"groups { backends: 'cpu' models { name: 'm' } strategies: 'gpipe' devices: 0 "
            "global_batches: 1 }",
            "a number of devices is 0; it must be at least 1"},
           {"groups { backends: 'cpu' models { name: 'm' } strategies: 'gpipe' devices: 1 "
            "global_batches: 1 dtype: 'fp8' }",
            "dtype is 'fp8'"},
           {"groups { backends: 'cpu' models { name: 'm' } strategies: 'gpipe' "
            "global_batches: 1 }",
            "backend cpu needs devices"},
           {"groups { backends: 'simulated' models { name: 'm' } strategies: 'gpipe' "
            "clusters: 'c' global_batches: 1 }",
            "needs clusters and the model's profile"},
           {"groups { backends: 'cpu' models { name: 'm' } strategies: 'gpipe' devices: [2, 2] "
            "global_batches: 1 }",
            "cpu.m.2_devices.batch_1 is in the suite twice"}}) {
    const auto cases = Expand(wrong.text);
    EXPECT_THAT(std::string(cases.status().message()), HasSubstr(wrong.message)) << wrong.text;
  }
}

TEST(SuiteCasesTest, EverySuiteThatIsCheckedInCanBeExpanded) {
  for (const char* name : {"quick", "cpu", "gpu", "paper", "gate"}) {
    const auto suite = ReadSuite(name, "bench/suites");
    ASSERT_TRUE(suite.ok()) << suite.status();
    EXPECT_EQ(suite->name(), name);
    const auto cases = ExpandSuite(*suite);
    EXPECT_TRUE(cases.ok()) << cases.status();
  }
  // Full-size Stable Diffusion is measured at the image size of the other cases, which fits into a
  // GPU's memory.
  const auto gpu_cases = ExpandSuite(*ReadSuite("gpu", "bench/suites"));
  ASSERT_TRUE(gpu_cases.ok()) << gpu_cases.status();
  int num_full_size = 0;
  for (const SuiteCase& one : *gpu_cases) {
    if (one.model.name() != "stable_diffusion_v2_1") continue;
    ++num_full_size;
    EXPECT_EQ(one.model.image_size(), 512);
    EXPECT_LE(one.global_batch, 32);
    EXPECT_LE(one.settings.repeats() * (one.settings.steps() + one.settings.warmup_steps()), 16);
  }
  EXPECT_EQ(num_full_size, 3);
  EXPECT_THAT(std::string(ReadSuite("quack", "bench/suites").status().message()),
              HasSubstr("there is no suite 'quack'; there are cpu, gate, gpu, paper, quick"));
}

TEST(SuiteCasesTest, CasesThisMachineCannotRunAreSkippedWithAReason) {
  SuiteCase one;
  one.num_devices = 100000;
  EXPECT_THAT(std::string(FindBackend("cpu")->check(one).message()),
              HasSubstr("100000 CPU devices need one core each"));
  EXPECT_EQ(FindBackend("tpu"), nullptr);
}

}  // namespace
}  // namespace dpipe::bench
