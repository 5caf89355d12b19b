#include "tools/planning/profile_text.h"

#include "core/base/time.h"
#include "core/cost/testing/fake_profile.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::tools {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ProfileTextTest, LocalBatchesIncrease) {
  EXPECT_THAT(*ParseLocalBatches("1,2,16"), ElementsAre(1, 2, 16));
  for (const char* bad : {"", "0", "2,2", "4,1", "1,x", "1,,2"}) {
    EXPECT_THAT(std::string(ParseLocalBatches(bad).status().message()),
                HasSubstr("must be positive and increasing"))
        << bad;
  }
}

TEST(ProfileTextTest, EveryComponentAndBatchHasALineWithItsSums) {
  UniformProfileOptions options;
  options.num_layers = 8;
  options.forward_ns = kNanosPerMilli;
  options.grad_ns = kNanosPerMilli;
  options.frozen_layers = 4;
  options.frozen_ns = kNanosPerMilli / 2;
  ModelProfile profile = UniformProfile(options);
  profile.set_device("a device");
  profile.set_provenance("measured by nobody");
  const std::string text = ProfileText(profile);
  for (const ComponentProfile& component : profile.components()) {
    EXPECT_THAT(text, HasSubstr(component.name()));
  }
  EXPECT_THAT(text, ContainsRegex(" 8 +[0-9]+ +8.00 ms"));
  EXPECT_THAT(text, ContainsRegex(" 4 +[0-9]+ +2.00 ms +- +- "));
  EXPECT_THAT(text, HasSubstr("Measured: measured by nobody"));
}

}  // namespace
}  // namespace dpipe::tools
