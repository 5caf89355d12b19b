// Mixed integer linear programs, solved to optimality by Cbc.
//
//   minimise  sum of cost_j x_j
//   subject to  lower_i <= sum of a_ij x_j <= upper_i   and   lower_j <= x_j <= upper_j,
//   x_j a whole number where it is declared so.
//
// Deterministic for one model and no time limit that strikes. Cbc is not safe to call from several
// threads, so solving is serialised within the process; it prints nothing, and what it throws ends
// here as Internal.
#ifndef DPIPE_CORE_PLANNER_FILL_EXACT_MILP_H_
#define DPIPE_CORE_PLANNER_FILL_EXACT_MILP_H_

#include <vector>

#include "absl/status/statusor.h"

namespace dpipe {

inline constexpr double kMilpInfinity = 1e30;

struct MilpTerm {
  int variable = 0;
  double coefficient = 0;
};

struct MilpOptions {
  double time_limit_s = 0;  // of processor time; 0: none
};

struct MilpSolution {
  bool found = false;          // false: none was found
  bool proven = false;         // that nothing is better (or, where not found, that there is none)
  double objective = 0;        // where found
  double bound = 0;            // no solution costs less; where one was found or time ran out
  std::vector<double> values;  // by variable, where found; whole numbers are exactly so
};

class Milp {
 public:
  // Returns the variable's index.
  int AddVariable(double lower, double upper, double cost, bool whole);
  int AddBinary(double cost = 0) { return AddVariable(0, 1, cost, true); }
  // A variable at most once.
  void AddRow(double lower, double upper, std::vector<MilpTerm> terms);
  void SetCost(int variable, double cost) { variables_[variable].cost = cost; }
  void SetBounds(int variable, double lower, double upper);

  int num_variables() const { return static_cast<int>(variables_.size()); }
  int num_rows() const { return static_cast<int>(rows_.size()); }

  // Internal if Cbc gives up or throws.
  absl::StatusOr<MilpSolution> Minimize(const MilpOptions& options) const;

 private:
  struct Variable {
    double lower = 0, upper = 0, cost = 0;
    bool whole = false;
  };
  struct Row {
    double lower = 0, upper = 0;
    std::vector<MilpTerm> terms;
  };
  struct Arrays;

  std::vector<Variable> variables_;
  std::vector<Row> rows_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_EXACT_MILP_H_
