#include "bench/transports/communication_report.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::bench {
namespace {

using ::testing::HasSubstr;

// 1 MB takes 1 ms and 4 MB take 2 ms for each kind of traffic.
CommunicationTimes Times(const std::string& transport, int num_ranks) {
  CommunicationTimes measured{transport, num_ranks, {}};
  for (Traffic traffic : AllTraffic()) {
    measured.times.push_back({traffic, num_ranks, 1 << 20, 7, 1000000, 900000, 1100000});
    measured.times.push_back({traffic, num_ranks, 4 << 20, 3, 2000000, 1900000, 2100000});
  }
  return measured;
}

TEST(CommunicationReportTest, JsonKeepsEverything) {
  const CommunicationTimes before = Times("nccl", 4);
  const CommunicationTimes after = CommunicationFromJson(CommunicationToJson(before));
  EXPECT_EQ(after.transport, "nccl");
  EXPECT_EQ(after.num_ranks, 4);
  ASSERT_EQ(after.times.size(), before.times.size());
  for (size_t i = 0; i < before.times.size(); ++i) {
    EXPECT_EQ(after.times[i].traffic, before.times[i].traffic);
    EXPECT_EQ(after.times[i].num_ranks, 4);
    EXPECT_EQ(after.times[i].size_bytes, before.times[i].size_bytes);
    EXPECT_EQ(after.times[i].repeats, before.times[i].repeats);
    EXPECT_EQ(after.times[i].median_ns, before.times[i].median_ns);
    EXPECT_EQ(after.times[i].fastest_ns, before.times[i].fastest_ns);
    EXPECT_EQ(after.times[i].slowest_ns, before.times[i].slowest_ns);
  }
}

TEST(CommunicationReportTest, TransportsAreRowsOfOneTable) {
  const std::string table = CommunicationTable({Times("gloo", 4), Times("in_process", 2)});
  EXPECT_THAT(table, HasSubstr("| gloo | 4 | 1.0 MiB | 1.00 ms, 1.05 / 1.05 | 1.00 ms, 1.05 / 1.05 "
                               "| 1.00 ms, 1.05 / 1.57 | 1.00 ms, 1.05 / 0.786 "
                               "| 1.00 ms, 1.05 / 0.786 |\n"));
  EXPECT_THAT(table, HasSubstr("| gloo | 4 | 4.0 MiB | 2.00 ms, 2.1 / 2.1 |"));
  // By reference, no data is moved.
  EXPECT_THAT(table, HasSubstr("| in_process | 2 | 1.0 MiB | 1.00 ms, by reference "
                               "| 1.00 ms, by reference | 1.00 ms, 1.05 / 1.05 |"));
  const auto json = CommunicationToJson(Times("in_process", 2));
  EXPECT_FALSE(json["times"][0].contains("bus_bytes_per_s"));
  EXPECT_TRUE(CommunicationToJson(Times("gloo", 2))["times"][0].contains("bus_bytes_per_s"));
}

}  // namespace
}  // namespace dpipe::bench
