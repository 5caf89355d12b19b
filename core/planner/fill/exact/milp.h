// Mixed-integer linear programs, solved to optimality by Cbc.
//
//   minimise  sum of cost_j x_j
//   subject to  lower_i <= sum of a_ij x_j <= upper_i   and   lower_j <= x_j <= upper_j,
//   x_j integer if it was added with `whole`.
//
// Deterministic for a given model unless the time limit is reached. Cbc is not thread-safe, so
// solving is serialised within the process. Cbc's output is suppressed, and its exceptions are
// returned as Internal errors.
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
  double time_limit_s = 0;  // CPU time; 0: no limit
};

struct MilpSolution {
  bool found = false;          // true if there is a solution in `values`
  bool proven = false;         // the solution is optimal or, if none was found, none exists
  double objective = 0;        // cost of the solution, if found
  double bound = 0;            // lower bound on the cost, if found or the time limit was reached
  std::vector<double> values;  // by variable, if found; integer variables are rounded exactly
};

class Milp {
 public:
  // Adds a variable and returns its index. `whole`: integer.
  int AddVariable(double lower, double upper, double cost, bool whole);
  int AddBinary(double cost = 0) { return AddVariable(0, 1, cost, true); }
  // Adds the constraint lower <= sum of terms <= upper. Each variable may occur at most once.
  void AddRow(double lower, double upper, std::vector<MilpTerm> terms);
  void SetCost(int variable, double cost) { variables_[variable].cost = cost; }
  void SetBounds(int variable, double lower, double upper);

  int num_variables() const { return static_cast<int>(variables_.size()); }
  int num_rows() const { return static_cast<int>(rows_.size()); }

  // Solves the program. Returns Internal if Cbc fails numerically or throws.
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
