// Checks the planner on the whole grid of planner_grid.h, or a part of it.
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/simulated/planner_grid.h"
#include "core/base/status.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "core/planner/search.h"
#include "gflags/gflags.h"

DEFINE_int32(part, 0, "index of the part of the grid to check, from 0");
DEFINE_int32(parts, 1, "number of parts to divide the grid into; each has whole rows of batches");
DEFINE_string(strategies, "",
              "simpler strategies to compare with, separated by commas; empty: all; none: none");
DEFINE_int64(simulation_budget, dpipe::PlanOptions().simulation_budget,
             "approximate number of instructions that each search may simulate");
DEFINE_bool(force_sizes, true, "if a plan is rejected, try every micro-batch size");
FLAG_RANGE(part, 0, 1'000);
FLAG_RANGE(parts, 1, 1'000);
FLAG_RANGE(simulation_budget, 1, 1e12);

namespace dpipe::bench {
namespace {

struct Score {
  int points = 0, behind = 0, falls = 0, rejected = 0, wrongly_rejected = 0;
};

std::vector<std::string> Rivals() {
  if (FLAGS_strategies == "none") return {};
  if (FLAGS_strategies.empty()) return SimplerStrategies();
  return absl::StrSplit(FLAGS_strategies, ',');
}

void Print(const GridPoint& point, const std::string& strategy, const GridAnswer& answer,
           const std::string& finding) {
  std::printf("%s,%s,%d,%s,%.4f,%.2f,\"%s\",%s\n", point.cluster.c_str(), point.model.c_str(),
              point.global_batch, strategy.c_str(), answer.throughput, answer.planning_s,
              answer.plan.c_str(), finding.c_str());
  std::fflush(stdout);
}

// Checks one point and returns its throughput in samples/s. `before` is the throughput of the next
// smaller batch, or 0 if there is none.
absl::StatusOr<double> Check(const GridPoint& point, double before, Score* score) {
  DPIPE_ASSIGN_OR_RETURN(const GridPlanner planner, GridPlanner::Read(point));
  DPIPE_ASSIGN_OR_RETURN(
      const GridAnswer ours,
      planner.Plan("opendiffusionpipe", point.global_batch, FLAGS_simulation_budget));
  ++score->points;
  const bool falls = IsBehind(ours.throughput, before);
  score->falls += falls;
  Print(point, "opendiffusionpipe", ours,
        falls ? absl::StrCat("FALLS from ", before) : std::string());
  bool is_behind = false;
  for (const std::string& rival : Rivals()) {
    DPIPE_ASSIGN_OR_RETURN(const GridAnswer theirs,
                           planner.Plan(rival, point.global_batch, FLAGS_simulation_budget));
    const bool is_ahead = IsBehind(ours.throughput, theirs.throughput);
    is_behind |= is_ahead;
    Print(point, rival, theirs, is_ahead ? "AHEAD" : "");
  }
  score->behind += is_behind;
  if (!ours.exceeds_memory_bound || !FLAGS_force_sizes) return ours.throughput;
  ++score->rejected;
  bool is_false = false;
  for (int size : GridPlanner::MicroBatchSizes(point.global_batch)) {
    DPIPE_ASSIGN_OR_RETURN(
        const GridAnswer forced,
        planner.Plan("opendiffusionpipe", point.global_batch, FLAGS_simulation_budget, size));
    if (forced.throughput == 0) continue;
    is_false = true;
    Print(point, absl::StrCat("micro_batch_size=", size), forced, "FITS");
  }
  score->wrongly_rejected += is_false;
  return ours.throughput;
}

absl::Status Run() {
  Score score;
  std::string row;
  int number = -1;
  double before = 0;
  std::printf("cluster,model,global_batch,strategy,samples_per_s,planning_s,plan,finding\n");
  for (const GridPoint& point : PlannerGrid()) {
    const std::string of_point = absl::StrCat(point.cluster, " ", point.model);
    if (of_point != row) {
      row = of_point;
      ++number;
      before = 0;
    }
    if (number % FLAGS_parts != FLAGS_part) continue;
    DPIPE_ASSIGN_OR_RETURN(before, Check(point, before, &score));
  }
  std::fprintf(stderr,
               "%d combinations: %d behind a simpler strategy, %d slower than a smaller batch, %d "
               "rejected, %d of these wrongly\n",
               score.points, score.behind, score.falls, score.rejected, score.wrongly_rejected);
  if (score.behind + score.falls + score.wrongly_rejected == 0) return absl::OkStatus();
  return absl::FailedPreconditionError("the planner breaks the guarantees in planner_grid.h");
}

}  // namespace
}  // namespace dpipe::bench

int main(int argc, char** argv) {
  const dpipe::Command command = {
      "planner_oracles",
      "Checks that the planner is never behind a simpler strategy, gains from larger batches and\n"
      "rejects nothing that fits, on the whole grid of clusters, models and batches. Writes CSV "
      "to\n"
      "standard output. Takes hours on one core.\n"
      "  bazel run //bench:planner_oracles -- --part=0 --parts=63\n"
      "  bazel run //bench:planner_oracles -- --strategies=none\n"};
  return dpipe::RunCommand(argc, argv, command, dpipe::bench::Run);
}
