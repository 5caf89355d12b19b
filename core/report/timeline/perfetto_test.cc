#include "core/report/timeline/perfetto.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/report/testing/synthetic_trace.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dpipe::report {
namespace {

using Json = nlohmann::json;

TEST(PerfettoTest, EveryEventOnceOnItsTrack) {
  const Trace trace = MakeSyntheticTrace({"diffusionpipe", 2, 4, 3, 0.1, 1});
  const auto text = PerfettoJson(trace);
  ASSERT_TRUE(text.ok()) << text.status();
  const Json file = Json::parse(*text);
  int num_slices = 0, num_steps = 0;
  std::set<std::string> names, tracks;
  for (const Json& event : file.at("traceEvents")) {
    if (event.at("ph") == "M" && event.at("name") == "process_name")
      tracks.insert(event.at("args").at("name"));
    if (event.at("ph") != "X") continue;
    EXPECT_GE(event.at("dur").get<double>(), 0);
    if (event.at("pid") == 0) {
      ++num_steps;
      continue;
    }
    ++num_slices;
    names.insert(event.at("name").get<std::string>());
    EXPECT_TRUE(event.at("args").contains("step"));
  }
  EXPECT_EQ(num_slices, trace.events_size());
  EXPECT_EQ(num_steps, 3);
  EXPECT_EQ(tracks, (std::set<std::string>{"steps", "device 0", "device 1"}));
  for (const char* name :
       {"F0", "F3", "B3", "opt", "load", "text L0-3", "VAE L0", "act 0 → 1", "VAE out → 0"}) {
    EXPECT_TRUE(names.count(name)) << name;
  }
}

TEST(PerfettoTest, ForwardOfMicroBatchThree) {
  const Trace trace = MakeSyntheticTrace({"1f1b", 2, 4, 1, 0, 1});
  const Json file = Json::parse(*PerfettoJson(trace));
  bool found = false;
  for (const Json& event : file.at("traceEvents")) {
    if (event.at("name") != "F3" || event.at("pid") != 1) continue;
    found = true;
    EXPECT_EQ(event.at("args").at("micro_batch"), 3);
    EXPECT_EQ(event.at("args").at("samples"), "[24, 32)");
    EXPECT_EQ(event.at("args").at("layers"), "[0, 21)");
    EXPECT_DOUBLE_EQ(event.at("dur"), 60.0 * 21 * 8) << "microseconds: 60 a layer and sample";
  }
  EXPECT_TRUE(found);
}

TEST(PerfettoTest, ArrowsJoinSendsToReceives) {
  const Trace trace = MakeSyntheticTrace({"1f1b", 4, 4, 2, 0.1, 1});
  const Json file = Json::parse(*PerfettoJson(trace));
  std::map<int, Json> begins, ends;
  int num_sends = 0;
  for (const Json& event : file.at("traceEvents")) {
    if (event.at("ph") == "s") begins[event.at("id")] = event;
    if (event.at("ph") == "f") ends[event.at("id")] = event;
    num_sends += event.value("cat", "") == "SEND";
  }
  EXPECT_EQ(begins.size(), num_sends);
  ASSERT_EQ(ends.size(), begins.size());
  for (const auto& [id, begin] : begins) {
    EXPECT_NE(begin.at("pid"), ends[id].at("pid"));
    EXPECT_EQ(begin.at("tid"), 1);
    EXPECT_EQ(ends[id].at("tid"), 2);
    EXPECT_LE(begin.at("ts").get<double>(), ends[id].at("ts").get<double>());
  }
}

TEST(PerfettoTest, PrologueDoesNotMakeTimesNegative) {
  Trace trace = MakeSyntheticTrace({"diffusionpipe", 2, 4, 2, 0, 1});
  trace.mutable_events(0)->set_step(-1);
  trace.mutable_events(0)->set_start_ns(-5000);
  const Json file = Json::parse(*PerfettoJson(trace));
  double earliest = 1;
  for (const Json& event : file.at("traceEvents")) {
    earliest = std::min(earliest, event.value("ts", 1.0));
  }
  EXPECT_EQ(earliest, 0);
}

TEST(PerfettoTest, BadTraceIsRefused) {
  Trace trace = MakeSyntheticTrace({"1f1b", 2, 4, 1, 0, 1});
  trace.mutable_events(0)->set_rank(-1);
  EXPECT_EQ(PerfettoJson(trace).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace dpipe::report
