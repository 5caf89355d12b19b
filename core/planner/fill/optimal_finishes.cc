// Solves random filling instances to optimality and prints the results in the format of
// testdata/optimal_finishes.csv.
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "core/planner/fill/exact/exact.h"
#include "core/planner/testing/random_fill.h"
#include "gflags/gflags.h"

DEFINE_int32(begin, 0, "index of the first instance (random_fill.h)");
DEFINE_int32(end, 10, "one past the index of the last instance");
DEFINE_double(time_limit_s, 120, "CPU seconds per instance; if reached, the bound is less tight");
FLAG_RANGE(begin, 0, dpipe::kMaxFlagCount);
FLAG_RANGE(end, 0, dpipe::kMaxFlagCount);
FLAG_RANGE(time_limit_s, 0, 1e6);

namespace {

absl::Status Run() {
  dpipe::ExactOptions options;
  options.minimise_leftover = false;
  options.time_limit_s = FLAGS_time_limit_s;
  for (int i = FLAGS_begin; i < FLAGS_end; ++i) {
    const dpipe::RandomFillInstance instance = dpipe::RandomFillNumber(i);
    const auto exact = dpipe::AssignUnitsExactly(instance.work, instance.devices, {}, options);
    if (!exact.ok()) {
      return absl::Status(exact.status().code(),
                          absl::StrCat("instance ", i, ": ", exact.status().message()));
    }
    std::printf("%d,%lld,%lld\n", i, static_cast<long long>(exact->finish_ns),
                static_cast<long long>(exact->finish_bound_ns));
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const dpipe::Command command = {"optimal_finishes",
                                  "Prints the optimal finishes of random filling instances.\n"};
  return dpipe::RunCommand(argc, argv, command, Run);
}
