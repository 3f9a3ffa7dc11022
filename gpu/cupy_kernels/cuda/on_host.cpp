// The kernels of recurrent.cu as plain C++, to be called without a device: the blocks one after another.

#define ON_HOST
#include "recurrent.cu"

#include <vector>

constexpr int GUARD = 64;
constexpr double UNTOUCHED = -12345;

// Runs all blocks, their threads in this order or backwards, and says whether they kept to their shared memory.
#define FUNCTION(name, System, Real, precision)                                                              \
    extern "C" bool name##_##precision(bool in_reverse, int blocks, int shared_bytes, PARAMETERS(Real)) {    \
        backwards = in_reverse;                                                                              \
        std::vector<double> memory(shared_bytes / sizeof(double) + GUARD, UNTOUCHED);                        \
        for (int index = 0; index < blocks; ++index) BLOCK(System, Real, index, memory.data()).run();        \
        for (int place = 1; place <= GUARD; ++place)                                                         \
            if (memory[memory.size() - place] != UNTOUCHED) return false;                                    \
        return true;                                                                                         \
    }
#define FUNCTIONS(name, System) FUNCTION(name, System, float, float32) FUNCTION(name, System, double, float64)
SYSTEMS(FUNCTIONS)
