// Expands a suite's definition into cases, one per combination.
#ifndef DPIPE_BENCH_SUITE_RUNNER_SUITE_CASES_H_
#define DPIPE_BENCH_SUITE_RUNNER_SUITE_CASES_H_

#include <string>
#include <vector>

#include "bench/suite.pb.h"
#include "core/base/status.h"

namespace dpipe::bench {

struct SuiteCase {
  // Unique in a suite, and usable as a file name: "cpu.tiny_sd.2_devices.batch_32".
  std::string id;
  std::string backend;
  SuiteModel model;
  int num_devices = 0;  // 0 if there is a cluster
  std::string cluster;  // a path; empty on this machine
  int global_batch = 0;
  // Strategies, repeats and steps, with defaults filled in.
  SuiteGroup settings;
};

// Reads a suite by name from `suites_folder`, or from a path that ends in .textproto. Returns
// NotFound with the existing suites, or InvalidArgument with file, line and field.
absl::StatusOr<Suite> ReadSuite(const std::string& name_or_path, const std::string& suites_folder);

// Returns the cases in the order of the definition. Returns InvalidArgument, with the location, for
// an unknown backend, strategy or element type, for a number out of range, and for two cases with
// the same id.
absl::StatusOr<std::vector<SuiteCase>> ExpandSuite(const Suite& suite);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SUITE_RUNNER_SUITE_CASES_H_
