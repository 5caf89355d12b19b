// Tests the grid on one small case, and the report on results written by hand.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "bench/simulated/paper_cases.h"
#include "bench/simulated/paper_grid.h"
#include "bench/simulated/paper_report.h"
#include "bench/simulated/tile_chart.h"
#include "bench/simulated/win_map.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dpipe::bench {
namespace {

Outcome Planned(const std::string& label, Role role, double rate) {
  Outcome outcome;
  outcome.label = outcome.spec = label;
  outcome.role = role;
  outcome.images_per_second = rate;
  outcome.step_ns = 1100;
  outcome.lower_bound_ns = 1000;
  return outcome;
}

GridResult ByHand() {
  GridResult c;
  c.model = "model";
  c.cluster = "a100_8x1";
  c.num_devices = 8;
  c.global_batch = 64;
  c.outcomes = {Planned("data_parallel", Role::kDataParallel, 100),
                Planned("gpipe", Role::kPipeline, 80), Planned("1f1b", Role::kPipeline, 90),
                Planned("diffusionpipe", Role::kFilled, 120)};
  c.outcomes.back().unfilled_bubble_ratio = 0.3;
  c.outcomes.back().bubble_ratio = 0.02;
  Outcome refused;
  refused.label = "zero3";
  refused.refusal = "no room";
  c.outcomes.push_back(refused);
  c.ablations = {Planned("no filling", Role::kPipeline, 90)};
  return c;
}

TEST(PaperGridTest, SpeedupsByHand) {
  const GridResult c = ByHand();
  const Outcome* ours = c.Find("diffusionpipe");
  EXPECT_DOUBLE_EQ(Speedup(ours, c.Find("data_parallel")), 1.2);
  EXPECT_EQ(c.Fastest(Role::kPipeline)->label, "1f1b");
  EXPECT_EQ(c.Find("zero3"), nullptr);
  EXPECT_EQ(c.Fastest(Role::kCached), nullptr);
  EXPECT_TRUE(std::isnan(Speedup(ours, c.Find("zero3"))));
}

// Returns a case of the combined grid with S = M = 8.
GridResult CombinedByHand(double plain, double combined) {
  GridResult c;
  c.model = "model";
  c.cluster = "a100_8x1";
  c.num_devices = 8;
  c.global_batch = 64;
  c.num_stages = c.num_micro_batches = 8;
  c.outcomes = {Planned("diffusionpipe", Role::kFilled, plain),
                Planned("opendiffusionpipe", Role::kFilled, combined)};
  return c;
}

TEST(PaperReportTest, TablesAndReasons) {
  const PaperReport report = MakePaperReport({ByHand(), CombinedByHand(100, 130)}, {});
  for (const std::string text :
       {"1.41x", "1.28x", "below 5.0 %", "published by the paper", "1.50x", "1.20x", "1.33x",
        "0.75x", "30.0 %", "2.0 %", "1.100 ", "1.30x", "8 / 8",
        "- zero3, 8 devices, batch 64: no room", "(model_speedups_diffusionpipe.svg)"}) {
    EXPECT_NE(report.markdown.find(text), std::string::npos) << text << "\n" << report.markdown;
  }
  EXPECT_EQ(report.pictures.size(), 7u);
  EXPECT_NE(report.pictures.at("model_bubbles.svg").find("published: below 5 %"),
            std::string::npos);
  EXPECT_NE(report.pictures.at("model_combined.svg").find("batch 64, 8 / 8: 1.3 x"),
            std::string::npos);
}

TEST(PaperReportTest, PicturesSayWhatIsSimulated) {
  const PaperReport report = MakePaperReport({ByHand(), CombinedByHand(100, 130)}, {});
  for (const auto& [name, svg] : report.pictures) {
    const bool is_measured = name == "model_planning.svg";
    EXPECT_EQ(svg.find(">simulated, not measured</text>") == std::string::npos, is_measured)
        << name;
    EXPECT_EQ(svg.find(">measured on one core, planning for simulated clusters</text>") !=
                  std::string::npos,
              is_measured)
        << name;
  }
}

TEST(PaperReportTest, Json) {
  const std::vector<GridResult> results{ByHand(), CombinedByHand(100, 130)};
  ReportSource source;
  source.simulation_budget = 7;
  const std::string text = PaperJson(results, source);
  const auto json = nlohmann::json::parse(text);
  const auto& c = json.at("cases").at(0);
  EXPECT_EQ(c.at("strategies").size(), 5u);
  EXPECT_EQ(c.at("strategies").at(3).at("bubble_ratio"), 0.02);
  EXPECT_EQ(c.at("strategies").at(4).at("refusal"), "no room");
  EXPECT_EQ(json.at("published").at("speedup_over_pipelines_at_most"), 1.41);
  // Results survive a round trip.
  const auto again = ReadPaperJson(text, 7);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(PaperJson(*again, source), text);
  EXPECT_TRUE(ReadPaperJson(text, 8)->empty());
  EXPECT_FALSE(ReadPaperJson("{", 7).ok());
  EXPECT_FALSE(ReadPaperJson("{\"simulation_budget\":7}", 7).ok());
}

GridResult MapCaseByHand(const std::string& cluster, int device_batch,
                         const std::vector<Outcome>& outcomes) {
  GridResult c;
  c.chapter = kLinkSpeedChapter;
  c.model = "model";
  c.device = "a100";
  c.cluster = cluster;
  c.num_devices = 8;
  c.global_batch = 8 * device_batch;
  c.outcomes = outcomes;
  return c;
}

Outcome Refused(const std::string& label) {
  Outcome outcome;
  outcome.label = label;
  outcome.refusal = "no room";
  return outcome;
}

TEST(WinMapTest, WinsByHand) {
  const Outcome plain = Planned("data_parallel", Role::kDataParallel, 100);
  const Outcome sharded = Planned("zero1", Role::kSharded, 120);
  Outcome ours = Planned("opendiffusionpipe", Role::kFilled, 150);
  ours.schedule = "zb-v";
  // Over the better of the two.
  const GridResult faster = MapCaseByHand("c", 1, {plain, sharded, ours});
  EXPECT_EQ(WinOf(faster).winner->label, "opendiffusionpipe");
  EXPECT_EQ(WinText(WinOf(faster)), "1.25x opendiffusionpipe (zb-v)");
  // Level within 0.5 %: the simplest is named.
  ours.images_per_second = 120.5;
  const GridResult level = MapCaseByHand("c", 1, {plain, sharded, ours});
  EXPECT_EQ(WinText(WinOf(level)), "1.00x zero1");
  ours.images_per_second = 121;
  const GridResult ahead = MapCaseByHand("c", 1, {plain, sharded, ours});
  EXPECT_EQ(WinText(WinOf(ahead)), "1.01x opendiffusionpipe (zb-v)");
  const Outcome pipeline = Planned("1f1b", Role::kPipeline, 3);
  const GridResult alone = MapCaseByHand("c", 1, {Refused("zero1"), pipeline});
  EXPECT_EQ(WinOf(alone).rival, nullptr);
  EXPECT_EQ(WinText(WinOf(alone)), "only 1f1b, 3.00/s");
  EXPECT_EQ(WinText(WinOf(MapCaseByHand("c", 1, {Refused("zero1")}))), "-");
}

// Number of `part` in `text`.
int CountOf(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(WinMapTest, ChapterByHand) {
  const auto cell = [](const std::string& cluster, int batch, double ours) {
    return MapCaseByHand(
        cluster, batch,
        {Planned("zero1", Role::kSharded, 100), Planned("diffusionpipe", Role::kFilled, ours)});
  };
  std::vector<GridResult> results = {cell("a100_1x8_10g", 1, 310), cell("a100_8x1", 1, 100),
                                     MapCaseByHand("a100_1x8_10g", 4, {Refused("zero1")}),
                                     cell("a100_8x1", 4, 109)};
  results.push_back(results[0]);
  results.back().model = "other";
  results.back().outcomes[1].images_per_second = 200;
  const PaperReport report = MakePaperReport(results, {});
  for (const std::string text :
       {"| samples | 10 Gb/s | NVLink |", "| 1 | 2.55x (2.00x to 3.10x) | 1.00x (1.00x to 1.00x) |",
        "| 4 | -; 1 not at all | 1.09x (1.09x to 1.09x) |",
        "| 1 | 3.10x diffusionpipe | 1.00x zero1 |", "| 4 | - | 1.09x diffusionpipe |",
        "| 10 Gb/s | 1 | 100 | 310 |", "(model_link_speed.svg)"}) {
    EXPECT_NE(report.markdown.find(text), std::string::npos) << text << "\n" << report.markdown;
  }
  EXPECT_EQ(report.markdown.find("## Summary"), std::string::npos);
  ASSERT_EQ(report.pictures.size(), 2u);
  const std::string& svg = report.pictures.at("model_link_speed.svg");
  EXPECT_EQ(CountOf(svg, ">simulated, not measured</text>"), 1);
  EXPECT_EQ(CountOf(svg, ">3.10x<"), 1);
  EXPECT_EQ(CountOf(svg, ">not fit<"), 1);
  // A tile and a legend's mark of the strongest tone.
  EXPECT_EQ(CountOf(svg, "class=\"k4\""), 2);
  // Chapters survive JSON.
  const auto again = ReadPaperJson(PaperJson(results, {}), 0);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(MakePaperReport(*again, {}).markdown, report.markdown);
}

TEST(TileChartTest, EveryTileIsInsideAndSaysItsText) {
  TileChart chart;
  chart.title = "t <1>";
  chart.rows = {"1", "two\nlines"};
  chart.columns = {"a", "b", "c"};
  const Tile tile{Tone::kStrong, "1.5x", {"name", "(more)"}};
  chart.tiles = {{tile, tile, Tile()}, {tile, tile, tile}};
  chart.legend = {{Tone::kStrong, "strong"}};
  const std::string svg = TileChartSvg(chart);
  EXPECT_NE(svg.find("t &lt;1&gt;"), std::string::npos);
  EXPECT_EQ(CountOf(svg, ">1.5x<"), 5);
  EXPECT_EQ(CountOf(svg, ">(more)<"), 5);
  // Tiles of three columns are equally wide and end at the right margin of 8 pixels.
  EXPECT_EQ(CountOf(svg, "class=\"k3\" x=\"58\""), 2);
  EXPECT_EQ(CountOf(svg, "width=\"135\""), 6);
  EXPECT_EQ(CountOf(svg, "prefers-color-scheme:dark"), 1);
}

TEST(PaperGridTest, NamedClustersAndMadeProfiles) {
  GridOptions options;
  options.simulation_budget = 20000;
  options.profiles_of_chapter[kFineTuningChapter] = [](const std::string& model,
                                                       const std::string& device) {
    EXPECT_EQ(model, "made");
    EXPECT_EQ(device, "a100_80gb");
    ModelProfile profile = ProfileOf({}, "", "stable_diffusion_v2_1_512", "a100").value();
    profile.set_model("made");
    return absl::StatusOr<ModelProfile>(profile);
  };
  std::vector<GridCase> cases = FineTuningCases({"made"});
  ASSERT_EQ(cases.size(), SmallClusters().size());
  cases.resize(1);
  cases[0].contenders = {{"zero1", "zero1"}, {"1f1b", "1f1b"}};
  GridCase exact = cases[0];
  exact.nccl = false;
  cases.push_back(exact);
  const auto results = RunGrid(options, cases);
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*results)[0].cluster, "rtx4090_2x1_10gbe");
  // Two nodes of one card: NCCL's ring sends what is divided once, exact sums at least as much.
  EXPECT_TRUE((*results)[0].outcomes[0].planned());
  EXPECT_LE((*results)[0].outcomes[0].step_ns, (*results)[1].outcomes[0].step_ns);
  std::vector<GridResult> bounded = *results;
  ASSERT_TRUE(SetWorkBounds(options, &bounded).ok());
  EXPECT_GT(bounded[0].min_step_ns, 0);
  EXPECT_LE(bounded[0].min_step_ns, bounded[0].outcomes[1].step_ns);
  cases[0].num_devices = 4;
  EXPECT_NE(std::string(RunGrid(options, cases).status().message()).find("rtx4090_2x1_10gbe has 2"),
            std::string::npos);
}

// Every map names clusters that exist, with their numbers of devices.
TEST(PaperCasesTest, MapsNameClustersThatExist) {
  for (const auto& clusters : {LinkClusters(), SmallClusters()}) {
    for (const MapCluster& cluster : clusters) {
      GridCase c;
      c.model = "stable_diffusion_v2_1_512";
      c.cluster = cluster.name;
      c.num_devices = cluster.num_devices;
      c.global_batch = cluster.num_devices;
      c.contenders = {{"data_parallel", "data_parallel"}};
      EXPECT_TRUE(RunGrid({}, {c}).ok()) << cluster.name;
    }
  }
  EXPECT_EQ(LinkSpeedCases({"a", "b"}, {1, 2}).size(), 4 * LinkClusters().size());
}

GridCase CaseOf(const std::string& model, int global_batch,
                const std::vector<std::string>& strategies) {
  GridCase c;
  c.model = model;
  c.global_batch = global_batch;
  for (const std::string& name : strategies) c.contenders.push_back({name, name});
  return c;
}

// Each step from the published filling to ours is a strategy, and simulates.
TEST(PaperGridTest, StepsOfTheFillAblation) {
  const std::vector<GridEntry> steps = FillSteps();
  EXPECT_EQ(steps.front().spec, "diffusionpipe-paper");
  EXPECT_EQ(steps[steps.size() - 3].spec, "diffusionpipe");
  EXPECT_EQ(steps.back().spec, "opendiffusionpipe");
  GridOptions options;
  options.simulation_budget = 20000;
  options.jobs = 2;
  std::vector<GridCase> cases = FillCases({"stable_diffusion_v2_1_512"});
  ASSERT_EQ(cases.size(), 9);
  cases.erase(cases.begin() + 2, cases.end());
  const auto results = RunGrid(options, cases);
  ASSERT_TRUE(results.ok()) << results.status();
  for (const GridResult& result : *results) {
    for (const Outcome& outcome : result.outcomes) {
      EXPECT_TRUE(outcome.planned()) << outcome.label << ": " << outcome.refusal;
      EXPECT_GT(outcome.images_per_second, 0);
    }
  }
  // At given S and M, skipping bubbles under 10 ms leaves more idle time.
  const GridResult& given = results->back();
  EXPECT_EQ(given.num_stages, 4);
  EXPECT_LT(given.outcomes[1].bubble_ratio, given.outcomes[0].bubble_ratio);
}

TEST(PaperGridTest, StableDiffusionOnEightDevices) {
  GridOptions options;
  options.simulation_budget = 20000;
  options.jobs = 2;
  GridCase fixed = CaseOf("stable_diffusion_v2_1_512", 64, {"diffusionpipe"});
  fixed.num_stages = 2;
  fixed.num_micro_batches = 4;
  const std::vector<GridCase> cases = {
      CaseOf("stable_diffusion_v2_1_512", 128,
             {"data_parallel", "gpipe", "diffusionpipe", "no_such_strategy"}),
      fixed};
  size_t calls = 0;
  const auto count = [&calls](const std::vector<GridResult>& results, size_t total,
                              const GridResult&) {
    ++calls;
    EXPECT_EQ(results.size(), calls);
    EXPECT_EQ(total, 2u);
    return absl::OkStatus();
  };
  const auto results = RunGrid(options, cases, {}, count);
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), 2u);
  EXPECT_EQ(calls, 2u);
  const GridResult& c = (*results)[0];
  EXPECT_EQ(c.cluster, "a100_8x1");
  const Outcome* ours = c.Find("diffusionpipe");
  ASSERT_NE(ours, nullptr);
  EXPECT_GT(Speedup(ours, c.Find("gpipe")), 1);
  EXPECT_LE(ours->bubble_ratio, ours->unfilled_bubble_ratio);
  EXPECT_GE(ours->step_ns, ours->lower_bound_ns);
  EXPECT_GT(ours->planning_ns, 0);
  EXPECT_FALSE(c.outcomes[3].planned());
  const Outcome* at_two = (*results)[1].Find("diffusionpipe");
  ASSERT_NE(at_two, nullptr);
  EXPECT_EQ(at_two->num_stages, 2);
  EXPECT_EQ(at_two->num_micro_batches, 4);
  // Finished cases are not planned again, even if their numbers are wrong.
  std::vector<GridResult> finished = *results;
  finished[0].outcomes[0].step_ns = 1;
  const auto resumed = RunGrid(options, cases, finished);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ((*resumed)[0].outcomes[0].step_ns, 1);
  EXPECT_EQ((*resumed)[1].outcomes[0].planning_ns, (*results)[1].outcomes[0].planning_ns);
  // Nor are the outcomes of a case that has another contender now.
  std::vector<GridCase> more = cases;
  more[0].contenders.insert(more[0].contenders.begin(), {"zero1", "zero1"});
  const auto extended = RunGrid(options, more, finished);
  ASSERT_TRUE(extended.ok()) << extended.status();
  EXPECT_NE((*extended)[0].Find("zero1"), nullptr);
  EXPECT_EQ((*extended)[0].outcomes[1].step_ns, 1);
}

TEST(PaperGridTest, AnErrorOfTheCallerEndsTheGrid) {
  const GridCase c = CaseOf("stable_diffusion_v2_1_512", 64, {"data_parallel"});
  const auto results =
      RunGrid({}, {c, c}, {}, [](const std::vector<GridResult>&, size_t, const GridResult&) {
        return absl::DataLossError("disk full");
      });
  EXPECT_EQ(results.status().message(), "disk full");
}

TEST(PaperCasesTest, HowManyThereAre) {
  const ModelSetup setup{"m", "a100", {2, 4, 8}};
  const auto comparison = ComparisonCases({setup}, {8, 64}, DefaultContenders(), true);
  ASSERT_EQ(comparison.size(), 5u);  // 3 batches on 8 devices, 2 on 64
  EXPECT_EQ(comparison[1].global_batch, 32);
  EXPECT_FALSE(comparison[2].ablations.empty());
  EXPECT_EQ(comparison[4].global_batch, 512);
  EXPECT_TRUE(comparison[4].ablations.empty());
  // 3 depths x 3 M x 3 batches, minus the 3 of 4S micro-batches at 2 samples per device, plus the
  // free ones.
  EXPECT_EQ(CombinedCases({setup}).size(), 27u - 3u + 3u);
}

// No row may describe a part of a cascaded model, whatever the search can plan.
TEST(PaperGridTest, EveryBackboneIsPlannedOrTheCaseRefused) {
  const auto results = RunGrid({}, {CaseOf("cdm_imagenet_256", 64, {"data_parallel"})});
  ASSERT_TRUE(results.ok()) << results.status();
  const Outcome& outcome = (*results)[0].outcomes[0];
  // Multiply-adds of both backbones' forward and backward passes at the peak of eight A100.
  const double min_s = 64 * 3 * (109.68e9 + 631.64e9) / (8 * 156e12);
  if (outcome.planned()) {
    EXPECT_GT(outcome.step_ns * 1e-9, min_s);
  } else {
    EXPECT_NE(outcome.refusal.find("backbone"), std::string::npos) << outcome.refusal;
  }
}

TEST(PaperGridTest, ErrorsNameTheWrongValue) {
  const auto error = [](const GridCase& c) {
    return std::string(RunGrid({}, {c}).status().message());
  };
  GridCase c = CaseOf("no_such_model", 64, {});
  EXPECT_NE(error(c).find("no_such_model.textproto"), std::string::npos);
  c.device = "tpu";
  EXPECT_NE(error(c).find("tpu"), std::string::npos);
  c.num_devices = 12;
  EXPECT_NE(error(c).find("12"), std::string::npos);
}

}  // namespace
}  // namespace dpipe::bench
