// The cases of a suite: every combination that its definition asks for.
#ifndef DPIPE_BENCH_SUITE_CASES_H_
#define DPIPE_BENCH_SUITE_CASES_H_

#include <string>
#include <vector>

#include "bench/suite.pb.h"
#include "core/base/status.h"

namespace dpipe::bench {

struct SuiteCase {
  // Unique in a suite, and a file's name: "cpu.tiny_sd.2_devices.batch_32".
  std::string id;
  std::string backend;
  SuiteModel model;
  int num_devices = 0;  // 0 where there is a cluster
  std::string cluster;  // a file; empty on this machine
  int global_batch = 0;
  // Strategies, repeats and steps, with defaults filled in.
  SuiteGroup settings;
};

// Of a named suite in `suites_folder`, or of a path that ends in .textproto. NotFound lists the
// suites that there are; InvalidArgument names file, line and field.
absl::StatusOr<Suite> ReadSuite(const std::string& name_or_path, const std::string& suites_folder);

// In the order of the definition. InvalidArgument, saying where, for unknown backends, strategies
// and element types, for numbers that are out of range, and for two cases of one id.
absl::StatusOr<std::vector<SuiteCase>> ExpandSuite(const Suite& suite);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SUITE_CASES_H_
