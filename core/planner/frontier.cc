#include "core/planner/frontier.h"

#include <algorithm>
#include <optional>

namespace dpipe {

CandidateOrder Order(const Candidate& candidate) {
  const PipelineShape& shape = candidate.shape;
  return {shape.num_stages,      shape.num_micro_batches, shape.devices_per_pipeline,
          candidate.alternative, shape.peak_limit,        shape.frozen_hosts};
}

std::array<Frontier::Key, 3> Frontier::KeysOf(const Candidate& candidate) const {
  const PipelineShape& shape = candidate.shape;
  const bool spans = shape.devices_per_pipeline > devices_per_node_;
  return {Key{candidate.alternative, spans, shape.num_stages, shape.num_micro_batches},
          Key{candidate.alternative, spans, shape.num_stages, -1},
          Key{candidate.alternative, spans, -1, -1}};
}

void Frontier::Learn(const Candidate& candidate, double error, Errors& errors) const {
  for (const Key& key : KeysOf(candidate)) {
    const auto [known, added] = errors.try_emplace(key, error);
    if (!added) known->second = std::min(known->second, error);
  }
}

double Frontier::Find(const Candidate& candidate, const Errors& errors, double otherwise) const {
  for (const Key& key : KeysOf(candidate)) {
    const auto found = errors.find(key);
    if (found != errors.end()) return found->second;
  }
  return otherwise;
}

void Frontier::LearnCut(const Candidate& candidate) {
  if (candidate.estimate_ns <= 0) return;
  const double error =
      static_cast<double>(candidate.cut_estimate_ns) / static_cast<double>(candidate.estimate_ns);
  // Of other S and M other memory binds.
  const auto [known, added] = cut_errors_.try_emplace(KeysOf(candidate)[0], error);
  if (!added) known->second = std::min(known->second, error);
}

void Frontier::LearnStep(const Candidate& candidate, Nanos step_ns) {
  if (candidate.cut_estimate_ns <= 0) return;
  const double error = static_cast<double>(step_ns) / candidate.cut_estimate_ns;
  least_step_error_ = std::min(least_step_error_, error);
  Learn(candidate, error, step_errors_);
  const PipelineShape& shape = candidate.shape;
  if (shape.devices_per_pipeline <= devices_per_node_) {
    within_nodes_.insert({candidate.alternative, shape.num_stages, shape.num_micro_batches,
                          shape.frozen_hosts, candidate.estimate_ns});
  }
}

bool Frontier::KnowsStepsLike(const Candidate& candidate) const {
  return step_errors_.count(KeysOf(candidate)[2]) > 0;
}

bool Frontier::IsRepeated(const Candidate& candidate) const {
  const PipelineShape& shape = candidate.shape;
  return shape.devices_per_pipeline <= devices_per_node_ &&
         within_nodes_.count({candidate.alternative, shape.num_stages, shape.num_micro_batches,
                              shape.frozen_hosts, candidate.estimate_ns}) > 0;
}

Nanos Frontier::Expected(const Candidate& candidate) const {
  double expected = static_cast<double>(candidate.cut_estimate_ns);
  if (candidate.state == Candidate::State::kUncut) {
    expected = static_cast<double>(candidate.estimate_ns) * Find(candidate, cut_errors_, 1);
  }
  return static_cast<Nanos>(expected * Find(candidate, step_errors_, least_step_error_));
}

Candidate* Frontier::Next() {
  const auto place = [this](const Candidate* candidate) {
    return std::make_tuple(candidate->lacks_memory, Expected(*candidate), Order(*candidate));
  };
  size_t best = waiting_.size();
  std::optional<decltype(place(nullptr))> least;
  for (size_t i = 0; i < waiting_.size(); ++i) {
    const auto here = place(waiting_[i]);
    if (least && !(here < *least)) continue;
    least = here;
    best = i;
  }
  if (best == waiting_.size()) return nullptr;
  Candidate* const next = waiting_[best];
  waiting_.erase(waiting_.begin() + best);
  return next;
}

}  // namespace dpipe
