// Bounds the time that OpenMP's threads spin at a barrier before they sleep.
//
// libgomp's threads spin for milliseconds, which wastes whole time slices if another program wants
// the cores: the spinning thread waits for one of its team that was descheduled in its favour.
// libgomp reads the bound from the environment while it is loaded, before any code of the program
// runs, so the program has to start once more.
#ifndef DPIPE_CORE_BASE_HOST_BOUND_SPINNING_H_
#define DPIPE_CORE_BASE_HOST_BOUND_SPINNING_H_

#include <functional>

namespace dpipe {

// About 0.1 to 0.3 ms. See docs/decisions.md for other values.
inline constexpr char kSpinCount[] = "5000";

// Called first in main. Executes the program again, with the same process id, arguments and open
// files, and GOMP_SPINCOUNT=kSpinCount in its environment. In the second start, takes that out of
// the environment again, for the sake of programs that this one starts. Does nothing if libgomp is
// not loaded, if the user chose a way of waiting (GOMP_SPINCOUNT, OMP_WAIT_POLICY), or if the
// program cannot be executed again.
void BoundSpinning(char** argv);

// The same with another way to execute the program; for tests.
void BoundSpinning(bool has_openmp, const std::function<void()>& execute_again);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_HOST_BOUND_SPINNING_H_
