#include "core/schedule/file_formats/imported_schedule.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/schedule/generators.h"
#include "core/schedule/schedule_traits.h"
#include "core/schedule/testing/named_schedule.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(ImportedScheduleTest, IsMadeByItsName) {
  const Schedule v = NamedSchedule("zb-v", RequestOf(3, 5));
  ASSERT_TRUE(ImportSchedule("from-file", v).ok());
  ScheduleRequest request = RequestOf(3, 5);
  request.costs.assign(6, PassCosts{7, 5, 3});
  const Schedule made = NamedSchedule("from-file", request);
  for (int d = 0; d < 3; ++d) EXPECT_EQ(made.slots(d), v.slots(d));
  const ScheduleTraits traits = *TraitsOf("from-file");
  EXPECT_EQ(traits.stages_per_device, 2);
  EXPECT_TRUE(traits.splits_backward);
  EXPECT_FALSE(traits.takes_costs);
  EXPECT_EQ(MakeSchedule("from-file", RequestOf(3, 6)).status().message(),
            "schedule from-file: 3 devices and 6 micro-batches requested; it is for 3 and 5");
}

TEST(ImportedScheduleTest, RefusesNamesThatAreTakenAndSeveralChains) {
  const Schedule one = NamedSchedule("1f1b", RequestOf(2, 2));
  EXPECT_EQ(ImportSchedule("gpipe", one).message(),
            "schedule 'gpipe' already exists; import it under another name");
  EXPECT_EQ(ImportSchedule("both", NamedSchedule("chimera", RequestOf(2, 2))).message(),
            "schedule 'both' has 2 chains and 0 forward-only stages; only schedules with one "
            "chain and none of these can be imported");
  const std::vector<std::string> names = ScheduleNames();
  EXPECT_EQ(std::count(names.begin(), names.end(), "both"), 0);
}

}  // namespace
}  // namespace dpipe
