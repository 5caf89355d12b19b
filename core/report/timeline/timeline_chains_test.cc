// Timelines of plans with several stages per rank and several chains; memory over time, critical
// paths and comparisons.
#include <cstdlib>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/report/page/trace_page.h"
#include "core/report/palette.h"
#include "core/report/testing/synthetic_trace.h"
#include "core/report/testing/xml_reader.h"
#include "core/report/timeline/bubbles.h"
#include "core/report/timeline/perfetto.h"
#include "core/report/timeline/timeline_style.h"
#include "core/report/timeline/timeline_svg.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dpipe::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr Nanos kUnit = kNanosPerMilli;

// Adds the stages of one chain on the given ranks.
void AddChain(const std::vector<int>& ranks, Plan* plan) {
  PipelineChain* chain = plan->add_chains();
  chain->set_first_stage(plan->stages_size());
  chain->set_num_stages(static_cast<int>(ranks.size()));
  chain->set_num_micro_batches(1);
  for (int rank : ranks) {
    Stage* stage = plan->add_stages();
    stage->set_id(plan->stages_size() - 1);
    stage->set_chain(plan->chains_size() - 1);
    stage->mutable_layers()->set_begin(3 * stage->id());
    stage->mutable_layers()->set_end(3 * stage->id() + 3);
    stage->add_ranks(rank);
  }
}

// Appends an instruction to the rank's list, and its event after the rank's last event.
Instruction* AddPass(int rank, Instruction::Kind kind, int stage, Nanos start_ns, Trace* trace) {
  while (trace->plan().devices_size() <= rank) {
    trace->mutable_plan()->add_devices()->set_rank(trace->plan().devices_size() - 1);
  }
  DeviceProgram* program = trace->mutable_plan()->mutable_devices(rank);
  TraceEvent* event = trace->add_events();
  event->set_rank(rank);
  event->set_instruction(program->instructions_size());
  event->set_start_ns(start_ns);
  event->set_end_ns(start_ns + kUnit);
  Instruction* instruction = program->add_instructions();
  instruction->set_kind(kind);
  instruction->set_stage(stage);
  return instruction;
}

// Two ranks, two directions: stage 0 on rank 0, stage 1 on rank 1; stage 2 on rank 1, stage 3 on
// rank 0.
Trace TwoDirections() {
  Trace trace;
  trace.mutable_plan()->set_strategy("chimera");
  trace.mutable_plan()->add_components()->set_is_backbone(true);
  AddChain({0, 1}, trace.mutable_plan());
  AddChain({1, 0}, trace.mutable_plan());
  AddPass(0, Instruction::FORWARD, 0, 0, &trace);
  AddPass(1, Instruction::FORWARD, 2, 0, &trace);
  AddPass(0, Instruction::FORWARD, 3, kUnit, &trace);
  AddPass(1, Instruction::FORWARD, 1, kUnit, &trace);
  AddPass(0, Instruction::BACKWARD, 3, 2 * kUnit, &trace);
  AddPass(1, Instruction::BACKWARD, 1, 2 * kUnit, &trace);
  trace.add_step_start_ns(0);
  trace.add_step_start_ns(3 * kUnit);
  return trace;
}

void AddMemory(int rank, Nanos time_ns, int64_t bytes, Trace* trace) {
  MemorySample* sample = trace->add_memory();
  sample->set_rank(rank);
  sample->set_time_ns(time_ns);
  sample->set_bytes(bytes);
}

TEST(TimelineChainsTest, BothDirectionsOfAStageHaveItsHue) {
  const Trace trace = TwoDirections();
  const TimelineStyle style(trace.plan());
  EXPECT_EQ(style.HueOf(0), 0);
  EXPECT_EQ(style.HueOf(1), 1);
  EXPECT_EQ(style.HueOf(2), 0) << "place 0 of its chain";
  EXPECT_EQ(style.HueOf(3), 1);
}

TEST(TimelineChainsTest, StagesOfARankDifferInHue) {
  for (const int p : {2, 4, 8}) {
    Plan v, loop;
    std::vector<int> down_and_up, around;
    for (int k = 0; k < 2 * p; ++k) {
      down_and_up.push_back(k < p ? k : 2 * p - 1 - k);
      around.push_back(k % p);
    }
    AddChain(down_and_up, &v);
    AddChain(around, &loop);
    for (const Plan* plan : {&v, &loop}) {
      const TimelineStyle style(*plan);
      for (const Stage& a : plan->stages()) {
        for (const Stage& b : plan->stages()) {
          if (a.id() == b.id() || a.ranks(0) != b.ranks(0)) continue;
          EXPECT_NE(style.HueOf(a.id()), style.HueOf(b.id())) << p << ": " << a.id() << b.id();
        }
      }
    }
  }
}

TEST(TimelineChainsTest, BothLapsOfAStageShareItsHue) {
  Plan plan;
  AddChain({0, 1, 0, 1}, &plan);
  plan.mutable_stages(0)->set_forward_only(true);
  plan.mutable_stages(1)->set_forward_only(true);
  const TimelineStyle style(plan);
  EXPECT_EQ(style.HueOf(2), style.HueOf(0));
  EXPECT_EQ(style.HueOf(3), style.HueOf(1));
  Instruction forward;
  forward.set_kind(Instruction::FORWARD);
  EXPECT_EQ(style.ClassOf(forward), PassClass(style.HueOf(0), Pass::kFirstLap));
  forward.set_stage(2);
  EXPECT_EQ(style.ClassOf(forward), PassClass(style.HueOf(0), Pass::kForward));
}

TEST(TimelineChainsTest, NamesContainTheStageIfARankHasSeveral) {
  const Trace trace = TwoDirections();
  Instruction pass;
  pass.set_micro_batch(3);
  pass.set_stage(2);
  for (const auto& [kind, name] :
       {std::pair(Instruction::FORWARD, "F3·s2"), std::pair(Instruction::RECOMPUTE, "R3·s2"),
        std::pair(Instruction::WEIGHT_GRAD, "W3·s2"), std::pair(Instruction::FLUSH, "flush"),
        std::pair(Instruction::GATHER_PARAMS, "gather"),
        std::pair(Instruction::RELEASE_PARAMS, "release")}) {
    pass.set_kind(kind);
    EXPECT_EQ(EventName(trace.plan(), pass), name);
  }
  pass.set_kind(Instruction::FORWARD);
  EXPECT_THAT(DescribeInstruction(trace.plan(), pass),
              HasSubstr("micro-batch 3, stage 2 (place 0 of chain 1)"));
  Plan straight;
  AddChain({0, 1, 2}, &straight);
  EXPECT_EQ(EventName(straight, pass), "F3");
}

TEST(TimelineChainsTest, TheSecondChainHasABand) {
  Trace trace = TwoDirections();
  const auto bands = [&trace] {
    const auto elements = ReadXml(*TimelineSvg(trace, "t"));
    int count = 0;
    for (const XmlElement& element : *elements) {
      const auto css_class = element.attributes.find("class");
      count += css_class != element.attributes.end() && css_class->second == "band";
    }
    return count;
  };
  EXPECT_EQ(bands(), 3 + 1) << "the passes of stages 2 and 3, and the legend";
  for (Stage& stage : *trace.mutable_plan()->mutable_stages()) stage.set_chain(0);
  EXPECT_EQ(bands(), 0);
}

TEST(TimelineChainsTest, RecomputingIsNotIdling) {
  Trace trace = TwoDirections();
  const auto idle = [&trace] {
    const TraceIndex index = *TraceIndex::Create(trace);
    return BubbleRatio(DeviceTimes(index, index.SteadySteps()));
  };
  EXPECT_DOUBLE_EQ(idle(), 0);
  Instruction* first = trace.mutable_plan()->mutable_devices(0)->mutable_instructions(0);
  first->set_kind(Instruction::RECOMPUTE);
  EXPECT_DOUBLE_EQ(idle(), 0);
  first->set_kind(Instruction::FLUSH);
  EXPECT_NEAR(idle(), 1.0 / 6, 1e-9);
}

TEST(TimelineChainsTest, TheCriticalPathIsOutlinedByRuns) {
  Trace trace = TwoDirections();
  EXPECT_THAT(*TimelineSvg(trace, "t"), Not(HasSubstr("class=\"crit\"")));
  // Rank 0's first two passes in a row, then rank 1's last.
  for (int event : {0, 2, 5}) trace.add_critical_path()->set_event(event);
  TimelineOptions options;
  const std::string svg = *TimelineSvg(trace, "t", options);
  const size_t begin = svg.find("<g class=\"crit\"><line");
  ASSERT_NE(begin, std::string::npos);
  const std::string group = svg.substr(begin, svg.find("</g>", begin) - begin);
  int boxes = 0, lines = 0;
  for (size_t i = 0; (i = group.find("<rect", i)) != std::string::npos; ++i) ++boxes;
  for (size_t i = 0; (i = group.find("<line", i)) != std::string::npos; ++i) ++lines;
  EXPECT_EQ(boxes, 2);
  EXPECT_EQ(lines, 1);
  EXPECT_THAT(group, HasSubstr("x=\"0%\""));
  EXPECT_THAT(group, HasSubstr("width=\"66.6667%\""));
  EXPECT_THAT(svg, HasSubstr("critical path"));
  options.draw_critical_path = false;
  EXPECT_THAT(*TimelineSvg(trace, "t", options), Not(HasSubstr("class=\"crit\"")));
  trace.add_critical_path()->set_event(6);
  EXPECT_EQ(TimelineSvg(trace, "t").status().message(),
            "trace: the critical path names event 6 of 6");
}

TEST(TimelineChainsTest, TheFirstDevicesAlone) {
  Trace trace = MakeSyntheticTrace({"diffusionpipe", 4, 4, 4, 0, 1});
  for (int rank = 0; rank < 4; ++rank) AddMemory(rank, 0, 1 << 20, &trace);
  for (int i = 0; i < trace.events_size(); i += 9) trace.add_critical_path()->set_event(i);
  TimelineOptions options;
  options.num_devices = 2;
  const std::string svg = *TimelineSvg(trace, "t", options);
  EXPECT_THAT(svg, HasSubstr("device 1</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("device 2</text>")));
  const auto elements = ReadXml(svg);
  ASSERT_TRUE(elements.ok()) << elements.status();
  const double height = std::atof((*elements)[0].attributes.at("height").c_str());
  for (const XmlElement& element : *elements) {
    const auto y = element.attributes.find("y");
    if (y == element.attributes.end()) continue;
    EXPECT_LT(std::atof(y->second.c_str()), height);
  }
  EXPECT_LT(svg.size(), TimelineSvg(trace, "t")->size() * 3 / 4);
}

TEST(TimelineChainsTest, MemoryIsACurvePerDevice) {
  Trace trace = TwoDirections();
  AddMemory(0, 0, 1 << 20, &trace);
  AddMemory(1, 0, 3 << 20, &trace);
  AddMemory(0, kUnit, 4 << 20, &trace);
  TimelineOptions options;
  options.memory_limit_bytes = {5 << 20, 64 << 20};
  const auto count = [](const std::string& svg, const std::string& what) {
    int found = 0;
    for (size_t i = 0; (i = svg.find(what, i)) != std::string::npos; ++i) ++found;
    return found;
  };
  std::string svg = *TimelineSvg(trace, "t", options);
  EXPECT_EQ(count(svg, "<path class=\"mem\""), 2);
  EXPECT_THAT(svg, HasSubstr("device 0: at most 4.0 MiB of 5.0 MiB"));
  EXPECT_THAT(svg, HasSubstr("device 1: at most 3.0 MiB of 64.0 MiB"));
  EXPECT_EQ(count(svg, "<line class=\"cap\""), 0) << "64 MiB would press the curves flat";
  options.memory_limit_bytes = {5 << 20, 5 << 20};
  svg = *TimelineSvg(trace, "t", options);
  EXPECT_EQ(count(svg, "<line class=\"cap\""), 2);
  // Full height is 1.04 x 5 MiB: 1 MiB leaves 1 - 1 / 5.2 of 1000 rows above it, 4 MiB 1 - 4 / 5.2.
  EXPECT_THAT(svg, HasSubstr("d=\"M0 1000V808H1333V231H4000V1000Z\""));
  options.draw_memory = false;
  EXPECT_EQ(count(*TimelineSvg(trace, "t", options), "<path class=\"mem\""), 0);
  trace.mutable_memory(1)->set_rank(2);
  EXPECT_THAT(TimelineSvg(trace, "t").status().ToString(), HasSubstr("rank 2 of 2 devices"));
}

TEST(TimelineChainsTest, ComparedTracesShareTheirAxis) {
  const Trace slow = MakeSyntheticTrace({"gpipe", 2, 4, 4, 0, 1});
  const Trace fast = MakeSyntheticTrace({"diffusionpipe", 2, 4, 4, 0, 1});
  const std::vector<TitledTrace> both = {{"slow", &slow}, {"fast", &fast}};
  TimelineOptions options;
  const double share = static_cast<double>(*WindowLength(fast, options)) /
                       static_cast<double>(*WindowLength(slow, options));
  ASSERT_LT(share, 0.99);
  const auto svg = ComparisonSvg(both, options);
  ASSERT_TRUE(svg.ok()) << svg.status();
  const auto elements = ReadXml(*svg);
  ASSERT_TRUE(elements.ok()) << elements.status();
  double end = 0;  // of the last step: its dashed line
  for (const XmlElement& element : *elements) {
    const auto css_class = element.attributes.find("class");
    if (css_class == element.attributes.end() || css_class->second != "edge") continue;
    end = std::atof(element.attributes.at("x1").c_str());
  }
  EXPECT_NEAR(end, 100 * share, 0.01);
}

TEST(TimelineChainsTest, PageOfTwoTracesIsWellFormedWithUniqueIds) {
  Trace trace = TwoDirections();
  AddMemory(0, 0, 1 << 20, &trace);
  trace.add_critical_path()->set_event(0);
  const Trace other = MakeSyntheticTrace({"diffusionpipe", 2, 4, 4, 0, 1});
  const auto page = TracePage({{"a <b>", &trace}, {"c", &other}});
  ASSERT_TRUE(page.ok()) << page.status();
  const auto elements = ReadXml(*page);
  ASSERT_TRUE(elements.ok()) << elements.status();
  std::set<std::string> ids;
  for (const XmlElement& element : *elements) {
    EXPECT_EQ(element.attributes.count("src") + element.attributes.count("href"), 0);
    const auto id = element.attributes.find("id");
    if (id == element.attributes.end()) continue;
    EXPECT_TRUE(ids.insert(id->second).second) << id->second;
  }
  EXPECT_THAT(*page, HasSubstr("a &lt;b&gt;"));
  EXPECT_THAT(*page, HasSubstr("as fast as the first"));
  EXPECT_THAT(*page, HasSubstr("data-do=\"path\""));
  EXPECT_THAT(*page, HasSubstr("class=\"compare\""));
}

TEST(TimelineChainsTest, PerfettoHasMemoryAndTheCriticalPath) {
  Trace trace = TwoDirections();
  AddMemory(1, kUnit, 77, &trace);
  trace.add_critical_path()->set_event(2);
  const auto events = nlohmann::json::parse(
      *PerfettoJson(std::vector<TitledTrace>{{"a", &trace}, {"b", &trace}}))["traceEvents"];
  int counters = 0, links = 0;
  std::set<std::string> processes;
  for (const auto& event : events) {
    if (event["ph"] == "C") {
      ++counters;
      EXPECT_EQ(event["args"]["bytes"], 77);
      EXPECT_EQ(event["ts"], 1000);
    }
    if (event.value("cat", "") == "critical path") {
      ++links;
      EXPECT_EQ(event["name"], "device 0: F0·s3");
    }
    if (event["name"] == "process_name") processes.insert(event["args"]["name"]);
  }
  EXPECT_EQ(counters, 2);
  EXPECT_EQ(links, 2);
  EXPECT_EQ(processes, (std::set<std::string>{"a: steps", "a: device 0", "a: device 1", "b: steps",
                                              "b: device 0", "b: device 1"}));
}

}  // namespace
}  // namespace dpipe::report
