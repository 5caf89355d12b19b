// The backends that a suite's cases can run on.
//
//   cpu        executed on this machine's cores
//   simulated  a described cluster, by discrete events: deterministic, no clock is read
//   emulated   the same cluster by the real runtime; a pass waits for its profiled time
//   cuda       this machine's GPU: one device is the whole GPU, several are virtual GPUs
//
// Cases that this version or this machine cannot run are skipped; reports show the reason.
#ifndef DPIPE_BENCH_SUITE_RUNNER_SUITE_BACKENDS_H_
#define DPIPE_BENCH_SUITE_RUNNER_SUITE_BACKENDS_H_

#include <functional>
#include <string>
#include <vector>

#include "bench/comparison/comparison.h"
#include "bench/suite.pb.h"
#include "core/base/status.h"

namespace dpipe::bench {

struct SuiteCase;

struct CaseOptions {
  std::string data_folder;  // for executed models; empty: the built-in data set
  // Folder of profiles shared by two programs, which plan from the profiles that the first one
  // leaves there. Empty: each program takes its own.
  std::string shared_profiles;
  double slow_down = 0;                       // see ComparisonOptions
  std::function<absl::Status()> before_turn;  // see ComparisonOptions
  // See ComparisonOptions; also called before each case. Empty: the suite cannot be stopped.
  std::function<std::string()> stop_requested;
  std::function<void(const std::string&)> say;
};

struct SuiteBackend {
  std::string name;
  bool on_this_machine = false;  // cases have devices; if false, clusters and profiles
  // A case may end the program that runs it, for example if it runs out of GPU memory.
  bool may_end_program = false;
  // Returns OK if the case can run here, and otherwise the reason for skipping it.
  std::function<absl::Status(const SuiteCase&)> check;
  std::function<absl::StatusOr<Comparison>(const SuiteCase&, const CaseOptions&)> run;
};

// Returns null if there is no such backend.
const SuiteBackend* FindBackend(const std::string& name);
// Returns "cpu, simulated, ...".
std::string BackendNames();

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SUITE_RUNNER_SUITE_BACKENDS_H_
