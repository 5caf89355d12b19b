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
// Pipelines that differ in D alone do the same work and differ only in what crosses which links: of
// those that lie within nodes and have equal estimates one stands for all.
#ifndef DPIPE_CORE_PLANNER_FRONTIER_H_
#define DPIPE_CORE_PLANNER_FRONTIER_H_

#include <array>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "core/base/time.h"
#include "core/planner/pipeline_cut.h"
#include "core/planner/shape.h"

namespace dpipe {

// A shape on its way through the search.
struct Candidate {
  enum class State { kUncut, kCut, kSimulated, kDone };  // done: and has no plan

  PipelineShape shape;
  int alternative = 0;         // which schedule and sharding of those that the strategy leaves open
  bool may_recompute = false;  // where the strategy leaves recomputation open
  State state = State::kUncut;
  bool is_out_of_memory = false;  // that is why it has no plan
  bool lacks_memory = false;      // by the mean of the devices' weights, gradients and moments
  Nanos estimate_ns = 0;          // of the shape
  PipelineCut cut;                // once it has been partitioned
  Nanos cut_estimate_ns = 0;
  Nanos step_ns = 0;   // expected; 0: not simulated
  Nanos bound_ns = 0;  // of its stages: sim/lower_bound.h
  double bubble_ratio = 0;
  std::vector<Nanos> finish_ns;  // BuiltPlan.finish_ns
  std::string outcome;
};

using CandidateOrder = std::tuple<int, int, int, int, int, int>;
// Smaller S first, then smaller M, smaller D, the alternative named first, frozen work anywhere.
CandidateOrder Order(const Candidate& candidate);

class Frontier {
 public:
  explicit Frontier(int devices_per_node) : devices_per_node_(devices_per_node) {}

  void Add(Candidate* candidate) { waiting_.push_back(candidate); }
  const std::vector<Candidate*>& waiting() const { return waiting_; }
  void Clear() { waiting_.clear(); }
  // Takes out the candidate of which the shortest step is expected; those that lack memory come
  // last. Null: none is left. O(candidates).
  Candidate* Next();
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
  using Errors = std::map<Key, double>;

  std::array<Key, 3> KeysOf(const Candidate& candidate) const;
  void Learn(const Candidate& candidate, double error, Errors& errors) const;
  double Find(const Candidate& candidate, const Errors& errors, double otherwise) const;

  const int devices_per_node_;
  std::vector<Candidate*> waiting_;
  Errors cut_errors_, step_errors_;
  double least_step_error_ = 1;
  // Alternative, S, M, hosts and estimate.
  std::set<std::tuple<int, int, int, int, Nanos>> within_nodes_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FRONTIER_H_
