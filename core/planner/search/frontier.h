// Which candidate of a search to look at next.
//
// A candidate has an estimate of its step; once it has been cut into stages, a second one that
// knows the stages. What is expected of a candidate is its latest estimate times the least factor
// by which estimates of that kind have been wrong so far: for the same schedule and sharding, S and
// M, else for the same with any M, else for the same with any S and M, where pipelines within a
// node and those across nodes are different kinds; else the least of all. The error of the first
// estimate, which does not know what memory does to a cut, is looked up for the same schedule, S
// and M only. The least expectation is next.
//
// Candidates that lack memory by memory_bound.h come last. While nothing has been found that fits,
// a search may ask for the candidate that needs least memory instead.
//
// Pipelines that differ in D alone do the same work and differ only in what crosses which links: of
// those that lie within nodes and have equal estimates one stands for all.
#ifndef DPIPE_CORE_PLANNER_SEARCH_FRONTIER_H_
#define DPIPE_CORE_PLANNER_SEARCH_FRONTIER_H_

#include <array>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "core/base/time.h"
#include "core/planner/pipeline/pipeline_cut.h"
#include "core/planner/pipeline/shape.h"

namespace dpipe {

// A shape on its way through the search.
struct Candidate {
  enum class State { kUncut, kCut, kSimulated, kDone };  // done: and has no plan

  PipelineShape shape;
  int alternative = 0;         // which schedule and sharding of those that the strategy leaves open
  bool may_recompute = false;  // where the strategy leaves recomputation open
  bool frozen_first = false;   // frozen work comes before the pipeline though the strategy fills
  State state = State::kUncut;
  bool is_out_of_memory = false;  // that is why it has no plan
  double memory_share = 0;        // it needs at least so much of a device's memory
  Nanos estimate_ns = 0;          // of the shape
  PipelineCut cut;                // once it has been partitioned
  Nanos cut_estimate_ns = 0;
  Nanos step_ns = 0;   // expected; 0: not simulated
  Nanos bound_ns = 0;  // of its stages: sim/lower_bound.h
  double bubble_ratio = 0;
  std::vector<Nanos> finish_ns;  // BuiltPlan.finish_ns
  std::string outcome;

  bool lacks_memory() const { return memory_share > 1; }
};

using CandidateOrder = std::tuple<int, int, int, int, int, int>;
// Smaller S first, then smaller M, smaller D, the alternative named first, frozen work anywhere.
CandidateOrder Order(const Candidate& candidate);
// True if a's step is shorter than b's, or as long and a is first in that order.
bool IsBetter(const Candidate& a, const Candidate& b);

class Frontier {
 public:
  explicit Frontier(int devices_per_node) : devices_per_node_(devices_per_node) {}

  void Add(Candidate* candidate);
  size_t num_waiting() const { return waiting_.size(); }
  void Clear() { waiting_.clear(); }
  // Takes out the candidate of which the shortest step is expected; those that lack memory come
  // last. Null: none is left. O(candidates).
  Candidate* Next();
  // Takes out the one that needs least memory, of equals the one that Next would take. Null: none
  // is left.
  Candidate* NextByMemory();
  // What is expected of it.
  Nanos Expected(const Candidate& candidate) const;
  // The candidate has a second estimate.
  void LearnCut(const Candidate& candidate);
  // Its step is `step_ns`, or no shorter.
  void LearnStep(const Candidate& candidate, Nanos step_ns);
  // Whether a step of its schedule, within a node or across nodes as it is, is known.
  bool KnowsStepsLike(const Candidate& candidate) const;
  // Whether one that was simulated stands for it.
  bool IsRepeated(const Candidate& candidate) const;

 private:
  // Alternative, whether a pipeline spans nodes, S and M; -1: any.
  using Key = std::tuple<int, bool, int, int>;
  // A candidate's own kind, with any M, and with any S and M: indices into errors.
  using Kinds = std::array<int, 3>;
  // By kind; 0: not known.
  using Errors = std::vector<double>;
  struct Waiting {
    Candidate* candidate = nullptr;
    Kinds kinds;
  };

  Kinds KindsOf(const Candidate& candidate) const;
  static void Learn(int kind, double error, Errors& errors);
  static double Find(const Kinds& kinds, const Errors& errors, double otherwise);
  double Expected(const Candidate& candidate, const Kinds& kinds) const;
  Candidate* TakeOut(size_t index);

  const int devices_per_node_;
  std::vector<Waiting> waiting_;
  mutable std::map<Key, int> kinds_;
  Errors cut_errors_, step_errors_;
  double least_step_error_ = 1;
  // Alternative, S, M, hosts and estimate.
  std::set<std::tuple<int, int, int, int, Nanos>> within_nodes_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_SEARCH_FRONTIER_H_
