#include "core/planner/fill/exact/milp.h"

#include <coin/Cbc_C_Interface.h>

#include <cmath>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace dpipe {
namespace {

struct DeleteModel {
  void operator()(Cbc_Model* model) const { Cbc_deleteModel(model); }
};
using Model = std::unique_ptr<Cbc_Model, DeleteModel>;

std::mutex& CbcMutex() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}

void Silence(Cbc_Model* model) {
  Cbc_setLogLevel(model, 0);
  Cbc_setParameter(model, "log", "0");
  Cbc_setParameter(model, "slog", "0");
}

MilpSolution ReadSolution(Cbc_Model* model, int num_variables, const std::vector<bool>& whole) {
  MilpSolution solution;
  const double* best = Cbc_bestSolution(model);
  solution.found = best != nullptr && Cbc_numberSavedSolutions(model) > 0;
  solution.proven = Cbc_isProvenOptimal(model) || Cbc_isProvenInfeasible(model);
  solution.bound = Cbc_getBestPossibleObjValue(model);
  if (!solution.found) return solution;
  solution.values.assign(best, best + num_variables);
  for (int j = 0; j < num_variables; ++j) {
    if (whole[j]) solution.values[j] = std::round(solution.values[j]);
  }
  solution.objective = Cbc_getObjValue(model);
  if (solution.proven) solution.bound = solution.objective;
  return solution;
}

}  // namespace

int Milp::AddVariable(double lower, double upper, double cost, bool whole) {
  variables_.push_back({lower, upper, cost, whole});
  return num_variables() - 1;
}

void Milp::AddRow(double lower, double upper, std::vector<MilpTerm> terms) {
  rows_.push_back({lower, upper, std::move(terms)});
}

void Milp::SetBounds(int variable, double lower, double upper) {
  variables_[variable].lower = lower;
  variables_[variable].upper = upper;
}

// The model in Cbc's format: arrays by row and by variable, and the matrix by columns.
struct Milp::Arrays {
  explicit Arrays(const Milp& milp) {
    std::vector<std::vector<MilpTerm>> columns(milp.variables_.size());  // `variable` holds the row
    for (int i = 0; i < milp.num_rows(); ++i) {
      row_lower.push_back(milp.rows_[i].lower);
      row_upper.push_back(milp.rows_[i].upper);
      for (const MilpTerm& term : milp.rows_[i].terms) {
        std::vector<MilpTerm>& column = columns[term.variable];
        DPIPE_CHECK(column.empty() || column.back().variable != i)
            << "a variable occurs twice in a row";
        column.push_back({i, term.coefficient});
      }
    }
    for (int j = 0; j < milp.num_variables(); ++j) {
      for (const MilpTerm& term : columns[j]) {
        row.push_back(term.variable);
        value.push_back(term.coefficient);
      }
      start.push_back(static_cast<CoinBigIndex>(row.size()));
      lower.push_back(milp.variables_[j].lower);
      upper.push_back(milp.variables_[j].upper);
      cost.push_back(milp.variables_[j].cost);
      whole.push_back(milp.variables_[j].whole);
    }
  }

  std::vector<CoinBigIndex> start = {0};
  std::vector<int> row;
  std::vector<double> value;
  std::vector<double> lower, upper, cost, row_lower, row_upper;
  std::vector<bool> whole;
};

absl::StatusOr<MilpSolution> Milp::Minimize(const MilpOptions& options) const {
  const Arrays arrays(*this);
  const std::lock_guard<std::mutex> lock(CbcMutex());
  try {
    const Model model(Cbc_newModel());
    Silence(model.get());
    Cbc_loadProblem(model.get(), num_variables(), num_rows(), arrays.start.data(),
                    arrays.row.data(), arrays.value.data(), arrays.lower.data(),
                    arrays.upper.data(), arrays.cost.data(), arrays.row_lower.data(),
                    arrays.row_upper.data());
    for (int j = 0; j < num_variables(); ++j) {
      if (arrays.whole[j]) Cbc_setInteger(model.get(), j);
    }
    if (options.time_limit_s > 0) Cbc_setMaximumSeconds(model.get(), options.time_limit_s);
    Cbc_setAllowableGap(model.get(), 0);
    Cbc_setAllowableFractionGap(model.get(), 0);
    Cbc_solve(model.get());
    if (Cbc_status(model.get()) == 2)
      return absl::InternalError("Cbc failed with numerical difficulties");
    return ReadSolution(model.get(), num_variables(), arrays.whole);
  } catch (const std::exception& e) {
    return absl::InternalError(absl::StrCat("Cbc threw an exception: ", e.what()));
  } catch (...) {
    return absl::InternalError("Cbc threw an unknown exception");
  }
}

}  // namespace dpipe
