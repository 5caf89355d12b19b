// What a suite's cases can run on.
//
//   cpu        this machine's cores, executed
//   simulated  a cluster that is described, by discrete events: no clock is read, nothing is noisy
//   emulated   the same cluster by the real runtime, each pass a wait of its profiled length
//   cuda       this machine's GPU: one device is all of it, several are virtual ones
//
// What this version or this machine lacks is skipped with its reason, which reports show.
#ifndef DPIPE_BENCH_SUITE_BACKENDS_H_
#define DPIPE_BENCH_SUITE_BACKENDS_H_

#include <functional>
#include <string>
#include <vector>

#include "bench/comparison.h"
#include "bench/suite.pb.h"
#include "core/base/status.h"

namespace dpipe::bench {

struct SuiteCase;

struct CaseOptions {
  std::string data_folder;  // of executed models; empty: the built-in data set
  // Cases of two programs plan from one profile, which the first to come leaves there; empty: each
  // takes its own.
  std::string shared_profiles;
  double slow_down = 0;                       // see ComparisonOptions
  std::function<absl::Status()> before_turn;  // likewise
  // Likewise; also asked before each case. Empty: nobody ends the suite.
  std::function<std::string()> stop_requested;
  std::function<void(const std::string&)> say;
};

struct SuiteBackend {
  std::string name;
  bool on_this_machine = false;  // cases name devices; else clusters and profiles
  // A case may end the program that runs it: memory of a GPU that runs out does.
  bool may_end_program = false;
  // OK where the case can run here; else the reason, which is then its reason to be skipped.
  std::function<absl::Status(const SuiteCase&)> check;
  std::function<absl::StatusOr<Comparison>(const SuiteCase&, const CaseOptions&)> run;
};

// Null if there is none of that name.
const SuiteBackend* FindBackend(const std::string& name);
// "cpu, simulated, ...".
std::string BackendNames();

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SUITE_BACKENDS_H_
