// Chooses the next candidate of a search: the one with the minimum expected step.
//
// A candidate has an estimate of its step and, once it has been cut into stages, a second one that
// uses the stages. Its expected step is its latest estimate times the minimum factor by which
// estimates of that kind have been wrong so far. The factor comes from the first of these that is
// known:
//
//   1. candidates of the same schedule, sharding, S and M;
//   2. the same with any M;
//   3. the same with any S and M;
//   4. all candidates.
//
// In 1 to 3, pipelines within a node and pipelines across nodes are different kinds. The first
// estimate does not know what memory does to a cut, so its error is looked up in 1 only.
//
// Candidates that lack memory by memory_bound.h come last. While nothing has been found that fits,
// a search may ask for the candidate that needs the least memory instead.
//
// Pipelines that differ only in D do the same work and use other links. Of those that fit within a
// node, or of all if every node has one device, those with equal estimates share one's outcome.
#ifndef DPIPE_CORE_PLANNER_SEARCH_FRONTIER_H_
#define DPIPE_CORE_PLANNER_SEARCH_FRONTIER_H_

#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "core/base/time.h"
#include "core/planner/pipeline/pipeline_cut.h"
#include "core/planner/pipeline/shape.h"

namespace dpipe {

// A shape on its way through the search.
struct Candidate {
  enum class State { kUncut, kCut, kSimulated, kDone };  // kDone: no plan

  PipelineShape shape;
  int alternative = 0;         // index of the schedule and sharding, see Alternative
  bool may_recompute = false;  // if the strategy leaves recomputation open
  bool frozen_first = false;   // frozen work before the pipeline even if the strategy fills
  State state = State::kUncut;
  bool failed_out_of_memory = false;  // the reason why it has no plan
  double memory_share = 0;            // minimum need, as a multiple of a device's memory
  Nanos estimate_ns = 0;              // of the shape
  PipelineCut cut;                    // set once it has been partitioned
  Nanos cut_estimate_ns = 0;
  Nanos step_ns = 0;   // PlanPair::expected_step_ns; 0: not simulated
  Nanos bound_ns = 0;  // lower bound, see sim/lower_bound.h
  double bubble_ratio = 0;
  std::vector<Nanos> finish_ns;  // BuiltPlan.finish_ns
  std::string outcome;

  bool exceeds_memory_bound() const { return memory_share > 1; }
};

using CandidateOrder = std::tuple<int, int, int, int, int, int>;
// Returns the key that breaks ties: smaller S, M and D first, then the alternative named first, the
// smaller peak_limit, and frozen work on any device.
CandidateOrder Order(const Candidate& candidate);
// True if a's step is shorter than b's, or equal and a comes first in that order.
bool IsBetter(const Candidate& a, const Candidate& b);

class Frontier {
 public:
  explicit Frontier(int devices_per_node) : devices_per_node_(devices_per_node) {}

  void Add(Candidate* candidate);
  size_t num_waiting() const { return waiting_.size(); }
  void Clear() { waiting_.clear(); }
  // Removes and returns the candidate with the minimum expected step. Those that lack memory come
  // last. Returns null if none is left. O(candidates).
  Candidate* Next();
  // Removes and returns the candidate that needs the least memory; ties as in Next. Returns null if
  // none is left.
  Candidate* NextByMemory();
  // Returns the expected step.
  Nanos Expected(const Candidate& candidate) const;
  // Records how wrong the first estimate was, given the second.
  void LearnCut(const Candidate& candidate);
  // Records how wrong the second estimate was: the step is `step_ns` or longer.
  void LearnStep(const Candidate& candidate, Nanos step_ns);
  // True if a step of its schedule is known, within a node or across nodes as for the candidate.
  bool KnowsStepsLike(const Candidate& candidate) const;
  // Records that a candidate was simulated or failed. It must outlive this.
  void LearnOutcome(const Candidate& candidate);
  // Returns the candidate recorded so that represents this one; null if there is none.
  const Candidate* RepresentativeOf(const Candidate& candidate) const;

 private:
  // Alternative, whether a pipeline spans nodes, S and M; -1: any.
  using Key = std::tuple<int, bool, int, int>;
  // Indices into Errors: a candidate's own kind, with any M, and with any S and M.
  using Kinds = std::array<int, 3>;
  // By kind; 0: unknown.
  using Errors = std::vector<double>;
  struct Waiting {
    Candidate* candidate = nullptr;
    Kinds kinds;
    bool exceeds_memory_bound = false;
    Nanos expected_ns = 0;  // by what is known so far
  };

  Kinds KindsOf(const Candidate& candidate) const;
  // Returns true if that changes what is known.
  static bool Learn(int kind, double error, Errors& errors);
  static double Find(const Kinds& kinds, const Errors& errors, double otherwise);
  double Expected(const Candidate& candidate, const Kinds& kinds) const;
  // Updates the expected steps of the waiting candidates of a kind; kAny: of all.
  static constexpr int kAny = -1;
  void UpdateExpected(int kind);
  Candidate* TakeOut(size_t index);

  const int devices_per_node_;
  std::vector<Waiting> waiting_;
  mutable std::map<Key, int> kinds_;
  Errors cut_errors_, step_errors_;
  double least_step_error_ = 1;
  // By alternative, whether it may recompute, S, M, hosts and estimate.
  using Twins = std::tuple<int, bool, int, int, int, Nanos>;
  // Returns nullopt if other pipelines use other kinds of links.
  std::optional<Twins> TwinsOf(const Candidate& candidate) const;
  std::map<Twins, const Candidate*> representatives_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_SEARCH_FRONTIER_H_
