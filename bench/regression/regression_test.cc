#include "bench/regression/regression.h"

#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "bench/suite_runner/suite_results.h"
#include "core/base/files/file.h"
#include "core/base/philox.h"
#include "core/report/testing/known_distributions.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dpipe::bench {
namespace {

using ::testing::HasSubstr;

constexpr int kTurns = 20;
constexpr int kRounds = 12;  // maximum of //bench:regress
constexpr const char* kStrategies[] = {"data_parallel", "gpipe", "1f1b", "diffusionpipe"};

// Returns the slowness of a shared machine at a turn: it slows down by up to 40 % and recovers,
// within a few turns or over many.
double SlownessAt(double turn, uint32_t trial) {
  return 1 + 0.1 * (1 + std::sin(0.9 * turn + trial)) + 0.1 * (1 + std::sin(0.13 * turn + trial));
}

struct Noise {
  uint32_t trial = 0;
  uint32_t side = 0;     // 0 and 1: the two results of one trial
  double start = 0;      // in turns, of the machine's slowness
  double own = 0.02;     // noise of each single turn, as a share of its time
  double slow_down = 0;  // of all steps
};

// Returns results of two cases of four strategies, in the form of a suite's.
Results Measure(const Noise& noise) {
  Results results;
  results.set_turns("together");
  uint32_t draw = 1000 * noise.trial + 500 * noise.side;
  for (const char* id : {"cpu.a", "cpu.b"}) {
    CaseResult& one = *results.add_cases();
    one.set_id(id);
    for (size_t s = 0; s < std::size(kStrategies); ++s) {
      StrategyResult& result = *one.add_strategies();
      result.set_strategy(kStrategies[s]);
      const auto own = report::NormalSamples(kTurns, 0, noise.own, draw++);
      for (int turn = 0; turn < kTurns; ++turn) {
        double time = (1 + 0.2 * static_cast<double>(s)) * std::exp(own[turn]) *
                      SlownessAt(noise.start + turn + 0.2 * static_cast<double>(s), noise.trial);
        // Another program takes the processor in one of 20 turns.
        if (std::fmod(std::abs(own[turn]) * 1e6, 20) < 1) time *= 1.5;
        result.add_images_per_second(1 / (time * (1 + noise.slow_down)));
      }
    }
  }
  return results;
}

// Returns the two programs' results of a round of turns.
using MeasureRound = std::function<std::pair<Results, Results>(uint32_t round)>;

// Adds rounds of turns until the verdict is clear, as //bench:regress does.
Regression CompareInRounds(const MeasureRound& measure) {
  RegressionOptions options;
  options.looks = LooksOfRounds(kRounds);
  Results old_results, new_results;
  Regression regression;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const auto [more_old, more_new] = measure(round);
    if (round == 0) {
      old_results = more_old;
      new_results = more_new;
    } else {
      EXPECT_TRUE(AppendTurns(more_old, &old_results).ok());
      EXPECT_TRUE(AppendTurns(more_new, &new_results).ok());
    }
    regression = CompareResults(old_results, new_results, options);
    if (!NeedsAnotherRound(regression, old_results.rounds())) break;
  }
  return regression;
}

MeasureRound SyntheticRounds(uint32_t trial, double own, double slow_down) {
  return [=](uint32_t round) {
    const uint32_t key = 100 * round + trial;
    const double start = 37.0 * round;
    return std::make_pair(Measure({key, 0, start, own, 0}),
                          Measure({key, 1, start, own, slow_down}));
  };
}

Verdict VerdictOfAll(const Regression& regression) { return regression.rows.back().verdict; }

TEST(RegressionTest, TwentyOfTwentyRunsOfTheSameCodePass) {
  for (uint32_t trial = 0; trial < 20; ++trial) {
    const Regression regression =
        CompareResults(Measure({trial, 0, 0, 0.02, 0}), Measure({trial, 1, 0, 0.02, 0}));
    EXPECT_FALSE(regression.failed()) << trial << "\n" << RegressionText(regression, {});
    EXPECT_EQ(VerdictOfAll(regression), Verdict::kSame) << trial;
  }
}

TEST(RegressionTest, TwentyOfTwentySlowdownsOfFivePercentAreCaught) {
  for (uint32_t trial = 0; trial < 20; ++trial) {
    const Regression regression =
        CompareResults(Measure({trial, 0, 0, 0.02, 0}), Measure({trial, 1, 0, 0.02, 0.05}));
    EXPECT_TRUE(regression.failed()) << trial << "\n" << RegressionText(regression, {});
    EXPECT_EQ(VerdictOfAll(regression), Verdict::kSlower) << trial;
    EXPECT_TRUE(regression.rows.back().ratio.Contains(1.05)) << trial;
  }
}

// With so much noise per turn, one round gives no verdict, but several do.
TEST(RegressionTest, SeveralRoundsSettleWhatOneCannot) {
  constexpr double kLoaded = 0.1;
  int clear_at_once = 0;
  for (uint32_t trial = 0; trial < 6; ++trial) {
    const Regression once =
        CompareResults(Measure({trial, 0, 0, kLoaded, 0}), Measure({trial, 1, 0, kLoaded, 0.05}));
    clear_at_once += once.settled() ? 1 : 0;
    const Regression same = CompareInRounds(SyntheticRounds(trial, kLoaded, 0));
    EXPECT_EQ(VerdictOfAll(same), Verdict::kSame) << trial << "\n" << RegressionText(same, {});
    EXPECT_FALSE(same.failed()) << trial;
    const Regression slower = CompareInRounds(SyntheticRounds(trial, kLoaded, 0.05));
    EXPECT_TRUE(slower.failed()) << trial << "\n" << RegressionText(slower, {});
  }
  EXPECT_LT(clear_at_once, 6);
}

// The difference between two processes of one program in a round, and of its turns, as logarithms.
struct ProcessNoise {
  double process = 0;      // deviation of the part that all turns of a round share
  double turn = 0;         // deviation of each pair of turns
  double start_order = 0;  // additional time of the program that is started first
};

// Measures three strategies of twelve turns, as in the suite `gate`.
MeasureRound RoundsOfProcesses(uint32_t trial, const ProcessNoise& noise, double slow_down) {
  return [=](uint32_t round) {
    RandomStream random(trial, round, 1, RandomPurpose::kTest);
    const bool new_first = (trial + round) % 2 == 0;
    const double shared =
        noise.process * random.NextNormal() + (new_first ? noise.start_order : -noise.start_order);
    std::pair<Results, Results> results;
    for (Results* one : {&results.first, &results.second}) {
      one->set_turns("together");
      one->add_cases()->set_id("cpu.a");
    }
    for (size_t s = 0; s < 3; ++s) {
      StrategyResult& old_result = *results.first.mutable_cases(0)->add_strategies();
      StrategyResult& new_result = *results.second.mutable_cases(0)->add_strategies();
      old_result.set_strategy(kStrategies[s]);
      new_result.set_strategy(kStrategies[s]);
      for (int turn = 0; turn < 12; ++turn) {
        const double log_ratio = shared + noise.turn * random.NextNormal();
        old_result.add_images_per_second(1);
        new_result.add_images_per_second(std::exp(-log_ratio) / (1 + slow_down));
      }
    }
    return results;
  };
}

constexpr ProcessNoise kProcessNoises[] = {
    {0, 0.01, 0},         {0.003, 0.005, 0.01}, {0.003, 0.003, 0.01},
    {0.005, 0.005, 0.01}, {0.01, 0.01, 0},      {0.007, 0.003, 0},
};

// Fewer than one in a hundred runs of a program against itself fails, whatever its processes share.
TEST(RegressionTest, DifferencesBetweenProcessesAreRarelyCalledSlower) {
  constexpr uint32_t kTrials = 1000;
  for (size_t i = 0; i < std::size(kProcessNoises); ++i) {
    int failed = 0;
    for (uint32_t trial = 0; trial < kTrials; ++trial) {
      failed += CompareInRounds(RoundsOfProcesses(trial, kProcessNoises[i], 0)).failed() ? 1 : 0;
    }
    EXPECT_LE(failed, kTrials / 100) << "noise " << i;
  }
}

TEST(RegressionTest, SlowdownsOfFivePercentAreFoundAmongThemInAFewRounds) {
  for (size_t i = 0; i < std::size(kProcessNoises); ++i) {
    int rounds = 0, failed = 0;
    for (uint32_t trial = 0; trial < 100; ++trial) {
      const MeasureRound measure = RoundsOfProcesses(trial, kProcessNoises[i], 0.05);
      const auto counted = [&](uint32_t round) {
        ++rounds;
        return measure(round);
      };
      failed += CompareInRounds(counted).failed() ? 1 : 0;
    }
    EXPECT_EQ(failed, 100) << "noise " << i;
    EXPECT_LE(rounds, 750) << "noise " << i;
  }
}

TEST(RegressionTest, AnOddNumberOfRoundsIsNeverEnough) {
  Regression regression;
  regression.rows.emplace_back().verdict = Verdict::kSlower;
  EXPECT_TRUE(regression.settled());
  EXPECT_TRUE(NeedsAnotherRound(regression, 1));
  EXPECT_FALSE(NeedsAnotherRound(regression, 2));
  EXPECT_TRUE(NeedsAnotherRound(regression, 3));
}

// One strategy, which the machine's slowness leaves unclear, and a new one.
TEST(RegressionTest, WithoutARowOfAllAnUnclearOneMustBeSettled) {
  Results old_results = Measure({3, 0, 0, 0.3, 0});
  Results new_results = Measure({3, 1, 0, 0.3, 0});
  old_results.mutable_cases()->RemoveLast();
  new_results.mutable_cases()->RemoveLast();
  while (old_results.cases(0).strategies_size() > 1) {
    old_results.mutable_cases(0)->mutable_strategies()->RemoveLast();
  }
  while (new_results.cases(0).strategies_size() > 2) {
    new_results.mutable_cases(0)->mutable_strategies()->RemoveLast();
  }
  const Regression regression = CompareResults(old_results, new_results);
  ASSERT_EQ(regression.rows.size(), 2u);
  EXPECT_EQ(regression.rows[0].verdict, Verdict::kUnclear);
  EXPECT_EQ(regression.rows[1].verdict, Verdict::kNew);
  EXPECT_FALSE(regression.settled());
  const CaseResult known = new_results.cases(0);
  *new_results.add_cases() = known;
  new_results.mutable_cases(1)->set_id("cpu.new");
  const Regression with_new = CompareResults(old_results, new_results);
  EXPECT_EQ(with_new.rows.back().verdict, Verdict::kNew);
  EXPECT_FALSE(with_new.settled());
}

// Returns turns of //bench:regress with the same program twice, on a machine that others used too:
// logarithms of new over old by strategy, in the order of measurement.
std::vector<std::vector<double>> RecordedNoise() {
  const auto text = ReadFile("bench/regression/testdata/recorded_turns.json");
  EXPECT_TRUE(text.ok()) << text.status();
  return nlohmann::json::parse(*text).at("log_ratios").get<std::vector<std::vector<double>>>();
}

// Takes a round of twelve neighbouring turns from each strategy's record, so that the correlation
// between neighbours is kept. The start, and which program is which, are random.
MeasureRound RecordedRounds(const std::vector<std::vector<double>>& noise, uint32_t trial,
                            double slow_down) {
  return [=](uint32_t round) {
    RandomStream random(trial, round, 0, RandomPurpose::kTest);
    std::pair<Results, Results> results;
    for (Results* one : {&results.first, &results.second}) {
      one->set_turns("together");
      one->add_cases()->set_id("cpu.a");
    }
    for (size_t s = 0; s < noise.size(); ++s) {
      StrategyResult& old_result = *results.first.mutable_cases(0)->add_strategies();
      StrategyResult& new_result = *results.second.mutable_cases(0)->add_strategies();
      old_result.set_strategy(kStrategies[s]);
      new_result.set_strategy(kStrategies[s]);
      const uint32_t begin = random.NextBelow(static_cast<uint32_t>(noise[s].size()));
      const double sign = random.NextBelow(2) == 0 ? 1 : -1;
      for (uint32_t turn = 0; turn < 12; ++turn) {
        const double log_ratio = sign * noise[s][(begin + turn) % noise[s].size()];
        old_result.add_images_per_second(1);
        new_result.add_images_per_second(std::exp(-log_ratio) / (1 + slow_down));
      }
    }
    return results;
  };
}

TEST(RegressionTest, OnRecordedNoiseTwentyOfTwentyPassAndTwentyOfTwentyAreCaught) {
  const std::vector<std::vector<double>> noise = RecordedNoise();
  ASSERT_EQ(noise.size(), 3u);
  for (uint32_t trial = 0; trial < 20; ++trial) {
    const Regression same = CompareInRounds(RecordedRounds(noise, trial, 0));
    EXPECT_FALSE(same.failed()) << trial << "\n" << RegressionText(same, {});
    EXPECT_EQ(VerdictOfAll(same), Verdict::kSame) << trial;
    const Regression slower = CompareInRounds(RecordedRounds(noise, trial, 0.05));
    EXPECT_TRUE(slower.failed()) << trial << "\n" << RegressionText(slower, {});
  }
}

// The more often results are judged, the higher the confidence of each look must be.
TEST(RegressionTest, LooksWidenIntervals) {
  const Results old_results = Measure({1, 0, 0, 0.02, 0});
  const Results new_results = Measure({1, 1, 0, 0.02, 0});
  RegressionOptions options;
  const Regression once = CompareResults(old_results, new_results, options);
  options.looks = kRounds;
  const Regression often = CompareResults(old_results, new_results, options);
  ASSERT_EQ(once.rows.size(), often.rows.size());
  for (size_t i = 0; i < once.rows.size(); ++i) {
    EXPECT_LT(often.rows[i].ratio.low, once.rows[i].ratio.low) << i;
    EXPECT_GT(often.rows[i].ratio.high, once.rows[i].ratio.high) << i;
    EXPECT_EQ(often.rows[i].ratio.estimate, once.rows[i].ratio.estimate) << i;
  }
}

TEST(RegressionTest, ASlowdownOfOneRowIsNamed) {
  const Results old_results = Measure({1, 0, 0, 0.01, 0});
  Results new_results = Measure({1, 1, 0, 0.01, 0});
  StrategyResult& slower = *new_results.mutable_cases(1)->mutable_strategies(2);
  for (double& sample : *slower.mutable_images_per_second()) sample /= 1.1;
  const Regression regression = CompareResults(old_results, new_results);
  ASSERT_EQ(regression.rows.size(), 9u);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(regression.rows[i].verdict == Verdict::kSlower, i == 6) << i;
  }
  EXPECT_EQ(regression.rows[6].case_id, "cpu.b");
  EXPECT_EQ(regression.rows[6].strategy, "1f1b");
  EXPECT_TRUE(regression.failed());
  EXPECT_THAT(RegressionText(regression, {}), HasSubstr("REGRESSION: 9 rows"));
}

TEST(RegressionTest, FasterIsNoRegression) {
  const Regression regression =
      CompareResults(Measure({2, 0, 0, 0.02, 0.2}), Measure({2, 1, 0, 0.02, 0}));
  EXPECT_EQ(VerdictOfAll(regression), Verdict::kFaster);
  EXPECT_FALSE(regression.failed());
}

TEST(RegressionTest, NoiseThatHidesASlowdownIsUnclearAndNotSlower) {
  const Regression regression =
      CompareResults(Measure({3, 0, 0, 0.3, 0}), Measure({3, 1, 0, 0.3, 0}));
  EXPECT_FALSE(regression.failed());
  EXPECT_EQ(VerdictOfAll(regression), Verdict::kUnclear);
  EXPECT_THAT(RegressionText(regression, {}), HasSubstr("may hide a slowdown"));
}

TEST(RegressionTest, ResultsOfDifferentTimesAreComparedMoreLeniently) {
  Results old_results = Measure({4, 0, 0, 0.005, 0});
  Results new_results = Measure({4, 1, 0, 0.005, 0.03});
  new_results.set_turns("another time");
  const Regression apart = CompareResults(old_results, new_results);
  EXPECT_FALSE(apart.failed());
  EXPECT_THAT(RegressionText(apart, {}), HasSubstr("Not measured in turns"));
  new_results.set_turns(old_results.turns());
  EXPECT_TRUE(CompareResults(old_results, new_results).failed());
}

TEST(RegressionTest, InvalidAndMissingRowsFailAndNewOnesDoNot) {
  Results old_results = Measure({5, 0, 0, 0.01, 0});
  Results new_results = old_results;
  new_results.mutable_cases(0)->mutable_strategies(1)->set_invalid("the loss of step 3 is nan");
  Regression regression = CompareResults(old_results, new_results);
  EXPECT_EQ(regression.rows[1].verdict, Verdict::kInvalid);
  EXPECT_TRUE(regression.failed());
  EXPECT_THAT(RegressionMarkdown(regression, {}), HasSubstr("step 3 is nan"));

  new_results = old_results;
  new_results.mutable_cases()->RemoveLast();
  regression = CompareResults(old_results, new_results);
  EXPECT_EQ(regression.rows[4].verdict, Verdict::kMissing);
  EXPECT_TRUE(regression.failed());

  regression = CompareResults(new_results, old_results);
  EXPECT_EQ(regression.rows[4].verdict, Verdict::kNew);
  EXPECT_FALSE(regression.failed());
}

TEST(RegressionTest, StrategiesThatAKnownCaseLackedAreNewOrInvalid) {
  Results old_results = Measure({5, 0, 0, 0.01, 0});
  const Results new_results = old_results;
  auto& strategies = *old_results.mutable_cases(0)->mutable_strategies();
  strategies[2].set_skipped("needs 4 devices");
  strategies.RemoveLast();
  Regression regression = CompareResults(old_results, new_results);
  ASSERT_EQ(regression.rows.size(), 9u);  // 2 compared, 2 new, 4 of the other case, all
  EXPECT_EQ(regression.rows[2].strategy, "1f1b");
  EXPECT_EQ(regression.rows[2].verdict, Verdict::kNew);
  EXPECT_EQ(regression.rows[3].strategy, "diffusionpipe");
  EXPECT_EQ(regression.rows[3].verdict, Verdict::kNew);
  EXPECT_FALSE(regression.failed());

  Results invalid = new_results;
  invalid.mutable_cases(0)->mutable_strategies(3)->set_invalid("its losses differ");
  invalid.mutable_cases(0)->mutable_strategies(2)->set_skipped("needs 4 devices");
  regression = CompareResults(old_results, invalid);
  ASSERT_EQ(regression.rows.size(), 8u);
  EXPECT_EQ(regression.rows[2].strategy, "diffusionpipe");
  EXPECT_EQ(regression.rows[2].verdict, Verdict::kInvalid);
  EXPECT_EQ(regression.rows[2].reason, "its losses differ");
  EXPECT_TRUE(regression.failed());
}

TEST(RegressionTest, ACaseThatFailedIsInvalidWithItsReason) {
  const Results old_results = Measure({5, 0, 0, 0.01, 0});
  Results failed = old_results;
  for (CaseResult& one : *failed.mutable_cases()) {
    one.set_state(CaseResult::FAILED);
    one.set_reason("no model of this name");
    one.clear_strategies();
  }
  // If it was measured before: a row for each of its strategies.
  Regression regression = CompareResults(old_results, failed);
  ASSERT_EQ(regression.rows.size(), 8u);
  EXPECT_EQ(regression.rows[0].verdict, Verdict::kInvalid);
  EXPECT_EQ(regression.rows[0].reason, "no model of this name");
  // If it failed before, too, or did not exist.
  for (const Results& before : {failed, Results()}) {
    regression = CompareResults(before, failed);
    ASSERT_EQ(regression.rows.size(), 2u);
    EXPECT_EQ(regression.rows[1].case_id, "cpu.b");
    EXPECT_EQ(regression.rows[1].verdict, Verdict::kInvalid);
    EXPECT_TRUE(regression.failed());
    EXPECT_FALSE(regression.compared());
    EXPECT_THAT(RegressionText(regression, {}), HasSubstr("REGRESSION: 2 rows, 2 INVALID"));
  }
}

TEST(RegressionTest, NoComparisonIsNotAPass) {
  Results skipped = Measure({5, 0, 0, 0.01, 0});
  for (CaseResult& one : *skipped.mutable_cases()) {
    one.set_state(CaseResult::SKIPPED);
    one.clear_strategies();
  }
  const Regression regression = CompareResults(skipped, skipped);
  EXPECT_FALSE(regression.compared());
  EXPECT_FALSE(regression.failed());
  EXPECT_THAT(RegressionText(regression, {}), HasSubstr("NOTHING COMPARED: 0 rows"));
  const Results measured = Measure({5, 0, 0, 0.01, 0});
  EXPECT_TRUE(CompareResults(measured, measured).compared());
}

TEST(RegressionTest, NotesNameOtherDifferencesThanTheCode) {
  const Results old_results = Measure({6, 0, 0, 0.01, 0});
  Results new_results = old_results;
  new_results.mutable_cases(0)->mutable_machine()->set_cpu_model("another");
  new_results.mutable_cases(1)->set_definition("other steps");
  const std::string text = RegressionText(CompareResults(old_results, new_results), {});
  EXPECT_THAT(text, HasSubstr("The machines differ: processor"));
  EXPECT_THAT(text, HasSubstr("cpu.b has different definitions"));
  EXPECT_THAT(text, HasSubstr("Mixed runs"));
}

}  // namespace
}  // namespace dpipe::bench
