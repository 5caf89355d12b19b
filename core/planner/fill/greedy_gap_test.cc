// Distance of the greedy filler from the optimum, on small random instances. The optima took the
// exact solver minutes and are stored in testdata/; some are solved again here.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "core/planner/fill/exact/exact.h"
#include "core/planner/fill/greedy/assign.h"
#include "core/planner/testing/random_fill.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

struct Optimum {
  int instance = 0;
  Nanos finish_ns = 0;  // best solution found
  Nanos bound_ns = 0;   // proven lower bound; equal to finish_ns if that is optimal
};

std::vector<Optimum> ReadOptima() {
  std::ifstream file("core/planner/fill/testdata/optimal_finishes.csv");
  std::vector<Optimum> optima;
  std::string line;
  while (std::getline(file, line)) {
    long long finish = 0, bound = 0;
    Optimum optimum;
    if (std::sscanf(line.c_str(), "%d,%lld,%lld", &optimum.instance, &finish, &bound) != 3) break;
    optimum.finish_ns = finish;
    optimum.bound_ns = bound;
    optima.push_back(optimum);
  }
  return optima;
}

// Returns when the last device starts its optimizer step if there is no frozen work.
Nanos FinishOfBackbone(const RandomFillInstance& instance) {
  Nanos finish_ns = 0;
  for (const DeviceGaps& device : instance.devices) {
    finish_ns = std::max({finish_ns, device.end_ns, device.optimizer_ns});
  }
  return finish_ns;
}

Nanos GreedyFinish(const RandomFillInstance& instance) {
  const Assignment assignment = AssignUnits(instance.work, instance.devices, {});
  Nanos finish_ns = 0;
  for (size_t d = 0; d < instance.devices.size(); ++d) {
    finish_ns = std::max({finish_ns, assignment.finish_ns[d], instance.devices[d].optimizer_ns});
  }
  return finish_ns;
}

// What frozen work adds to the backbone's time, summed over all instances: their optima may be 0.
TEST(GreedyGapTest, AddsLittleMoreThanTheOptimum) {
  double greedy = 0, bound = 0;
  int none_added = 0;
  for (const Optimum& optimum : ReadOptima()) {
    const RandomFillInstance instance = RandomFillNumber(optimum.instance);
    const Nanos backbone = FinishOfBackbone(instance);
    ASSERT_GE(optimum.bound_ns, backbone) << "instance " << optimum.instance;
    greedy += static_cast<double>(GreedyFinish(instance) - backbone);
    bound += static_cast<double>(optimum.bound_ns - backbone);
    none_added += optimum.bound_ns == backbone;
  }
  std::printf(
      "frozen work adds %.0f ns by the greedy filler, at least %.0f ns by any (%.4f); to %d "
      "instances it need not add any\n",
      greedy, bound, greedy / bound, none_added);
  EXPECT_LE(greedy / bound, 1.03);
}

TEST(GreedyGapTest, WithinOnePercentOnAverage) {
  const std::vector<Optimum> optima = ReadOptima();
  ASSERT_GE(optima.size(), 500);
  double sum = 0, worst = 0;
  int optimal = 0, proven = 0;
  for (const Optimum& optimum : optima) {
    SCOPED_TRACE(testing::Message() << "instance " << optimum.instance);
    const Nanos greedy = GreedyFinish(RandomFillNumber(optimum.instance));
    ASSERT_GE(greedy, optimum.bound_ns);
    if (optimum.finish_ns == optimum.bound_ns) {
      ++proven;
      optimal += greedy == optimum.finish_ns;
    }
    const double ratio = static_cast<double>(greedy) / static_cast<double>(optimum.bound_ns);
    sum += ratio;
    worst = std::max(worst, ratio);
  }
  const double mean = sum / static_cast<double>(optima.size());
  char text[200];
  std::snprintf(
      text, sizeof text,
      "%zu instances (%d with a proven optimum, %d of these reached): mean %.4f, worst %.4f",
      optima.size(), proven, optimal, mean, worst);
  std::printf("greedy finish / proven lower bound: %s\n", text);
  RecordProperty("greedy_over_optimum", text);
  EXPECT_LE(mean, 1.01);
  EXPECT_LE(worst, 1.12);
}

TEST(GreedyGapTest, StoredOptimaMatchSolver) {
  ExactOptions options;
  options.minimise_leftover = false;
  options.max_binaries = 120;  // only instances that are solved quickly
  int solved = 0;
  for (const Optimum& optimum : ReadOptima()) {
    if (optimum.instance >= 60 || optimum.finish_ns != optimum.bound_ns) continue;
    const RandomFillInstance instance = RandomFillNumber(optimum.instance);
    const auto exact = AssignUnitsExactly(instance.work, instance.devices, {}, options);
    if (!exact.ok()) continue;
    ++solved;
    ASSERT_TRUE(exact->proven) << optimum.instance;
    ASSERT_EQ(exact->finish_ns, optimum.finish_ns) << optimum.instance;
    ASSERT_LE(exact->finish_ns, GreedyFinish(instance));
  }
  EXPECT_GE(solved, 15);
}

}  // namespace
}  // namespace dpipe
