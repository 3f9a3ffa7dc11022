// Recurrences token by token in one kernel, in float64 and in the order in which they are stated. All of them are
//
//     S_t = D_t S_{t-1} + e_t (target - S_{t-1}^T p_t)^T + w_t v_t^T,   o_t = S_t^T r_t,   target = v_t or 0
//
// with vectors e, p, w, r of length d_k that a system makes of its inputs (below), one struct for each.
//
// One block has a batch, a value head and COLUMNS columns of the state S (d_k x d_v), which don't depend on the others.
// The state stays in shared memory. ROW_GROUPS threads share a column and sum up in a fixed order. With ON_HOST the same
// lines are plain C++: a block is a loop over its threads from barrier to barrier, and where no thread reads what another
// one writes in between, the order of that loop doesn't matter.

#ifdef ON_HOST
#include <cmath>
#define DEVICE
#define EACH_THREAD for (int turn = 0, thread; turn < THREADS && (thread = in_turn(turn), true); ++turn)
#define BARRIER
using std::exp;
#else
#define DEVICE __device__
#define EACH_THREAD for (int thread = threadIdx.x, once = 1; once; once = 0)
#define BARRIER __syncthreads()
#endif

constexpr int COLUMNS = 32, ROW_GROUPS = 8, THREADS = COLUMNS * ROW_GROUPS;

#ifdef ON_HOST
static bool backwards = false;
static int in_turn(int turn) { return backwards ? THREADS - 1 - turn : turn; }
#endif

struct Sizes {
    int tokens, heads, value_heads, key_width, value_width;
};

// Arrays in the layouts of gpu.registry, null where a system has no such input.
template <typename Real>
struct Arrays {
    const Real *queries, *keys, *others;  // b t h k
    const Real *values;                   // b t g v
    const Real *log_gates, *strengths;    // b t g, or b t g k
    const Real *cosines, *sines;          // b t h p
    const Real *bonus;                    // g k
    const Real *initial_state;            // b g k v
    Real *output, *final_state;           // b t g v, b g k v
};

// The inputs of one token and head.
template <typename Real>
struct Token {
    const Real *query, *key, *other, *log_gate, *strength, *cosine, *sine, *bonus;
};

// Row i of what a token does to the state.
struct Row {
    double fade = 1, read = 0, predict = 0, erase = 0, write = 0, bonus = 0, cosine = 1, sine = 0;
};

// What holds where a system doesn't say otherwise.
struct Usual {
    static constexpr bool channel_gates = false, channel_strengths = false;
    static constexpr bool reads_before = false;  // o_t reads S_{t-1}, and the own token with a bonus
    static constexpr bool corrects = false;      // target = v_t
    static constexpr bool turns = false;         // each pair of rows is rotated before it fades
};

struct LinearAttention : Usual {
    template <typename Token>
    DEVICE static void row(const Token& x, int i, Row& row) {
        row.read = x.query[i];
        row.write = x.key[i];
    }
};

struct DecayedAttention : Usual {
    template <typename Token>
    DEVICE static void row(const Token& x, int i, Row& row) {
        LinearAttention::row(x, i, row);
        row.fade = exp(double(x.log_gate[0]));
    }
};

struct Mamba2 : Usual {
    template <typename Token>
    DEVICE static void row(const Token& x, int i, Row& row) {
        DecayedAttention::row(x, i, row);
        row.write *= x.strength[0];
    }
};

struct RetNet : Usual {
    static constexpr bool turns = true;
    template <typename Token>
    DEVICE static void row(const Token& x, int i, Row& row) {
        DecayedAttention::row(x, i, row);
        row.cosine = x.cosine[i / 2];
        row.sine = x.sine[i / 2];
    }
};

struct Gla : Usual {
    static constexpr bool channel_gates = true;
    template <typename Token>
    DEVICE static void row(const Token& x, int i, Row& row) {
        LinearAttention::row(x, i, row);
        row.fade = exp(double(x.log_gate[i]));
    }
};

struct Rwkv6 : Gla {
    static constexpr bool reads_before = true;
    template <typename Token>
    DEVICE static void row(const Token& x, int i, Row& row) {
        Gla::row(x, i, row);
        row.bonus = double(x.bonus[i]) * x.key[i];
    }
};

struct DeltaNet : Usual {
    static constexpr bool corrects = true;
    template <typename Token>
    DEVICE static void row(const Token& x, int i, Row& row) {
        row.read = x.query[i];
        row.predict = x.key[i];
        row.erase = double(x.strength[0]) * x.key[i];
    }
};

struct GatedDeltaNet : DeltaNet {
    template <typename Token>
    DEVICE static void row(const Token& x, int i, Row& row) {
        DeltaNet::row(x, i, row);
        row.fade = exp(double(x.log_gate[0]));
        row.predict *= row.fade;
    }
};

struct Kda : DeltaNet {
    static constexpr bool channel_gates = true;
    template <typename Token>
    DEVICE static void row(const Token& x, int i, Row& row) {
        DeltaNet::row(x, i, row);
        row.fade = exp(double(x.log_gate[i]));
        row.predict *= row.fade;
    }
};

struct Comba : DeltaNet {
    template <typename Token>
    DEVICE static void row(const Token& x, int i, Row& row) {
        DeltaNet::row(x, i, row);
        row.fade = exp(double(x.log_gate[0]));
        row.predict = x.other[i];
    }
};

struct Rwkv7 : Usual {
    static constexpr bool channel_gates = true, channel_strengths = true;
    template <typename Token>
    DEVICE static void row(const Token& x, int i, Row& row) {
        Gla::row(x, i, row);
        row.predict = x.other[i];
        row.erase = double(x.other[i]) * x.strength[i];
    }
};

struct PathAttention : Usual {
    template <typename Token>
    DEVICE static void row(const Token& x, int i, Row& row) {
        LinearAttention::row(x, i, row);
        row.predict = x.other[i];
        row.erase = double(x.strength[0]) * x.other[i];
    }
};

// The shared memory of a block. Rows and values are there twice: those of the next token are fetched early.
struct Shared {
    double *state;    // key_width x COLUMNS
    double *partial;  // ROW_GROUPS x COLUMNS, of predictions
    double *outputs;  // ROW_GROUPS x COLUMNS
    double *values;   // 2 x COLUMNS
    Row *rows;        // 2 x key_width

    DEVICE Shared(double* memory, int key_width)
        : state(memory),
          partial(state + key_width * COLUMNS),
          outputs(partial + THREADS),
          values(outputs + THREADS),
          rows(reinterpret_cast<Row*>(values + 2 * COLUMNS)) {}
};

// One block: its place, and what its threads do between two barriers.
template <typename System, typename Real>
struct Block {
    Sizes sizes;
    Arrays<Real> arrays;
    Shared shared;
    int batch, value_head, head, first_column;

    DEVICE Block(Sizes sizes, Arrays<Real> arrays, int block, double* memory)
        : sizes(sizes), arrays(arrays), shared(memory, sizes.key_width) {
        int slices = (sizes.value_width + COLUMNS - 1) / COLUMNS;
        first_column = block % slices * COLUMNS;
        value_head = block / slices % sizes.value_heads;
        batch = block / slices / sizes.value_heads;
        head = value_head / (sizes.value_heads / sizes.heads);
    }

    DEVICE bool has_column(int thread) const { return first_column + thread % COLUMNS < sizes.value_width; }

    DEVICE long long of_head(int t, int width) const {
        return (((long long)batch * sizes.tokens + t) * sizes.heads + head) * width;
    }

    DEVICE long long of_value_head(int t, int width) const {
        return (((long long)batch * sizes.tokens + t) * sizes.value_heads + value_head) * width;
    }

    DEVICE long long of_state(int row, int thread) const {
        long long matrix = (long long)batch * sizes.value_heads + value_head;
        return (matrix * sizes.key_width + row) * sizes.value_width + first_column + thread % COLUMNS;
    }

    DEVICE static const Real* at(const Real* array, long long offset) { return array ? array + offset : nullptr; }

    DEVICE Token<Real> token(int t) const {
        long long keys = of_head(t, sizes.key_width), pairs = of_head(t, sizes.key_width / 2);
        long long gates = of_value_head(t, System::channel_gates ? sizes.key_width : 1);
        long long strengths = of_value_head(t, System::channel_strengths ? sizes.key_width : 1);
        return {at(arrays.queries, keys),
                at(arrays.keys, keys),
                at(arrays.others, keys),
                at(arrays.log_gates, gates),
                at(arrays.strengths, strengths),
                at(arrays.cosines, pairs),
                at(arrays.sines, pairs),
                at(arrays.bonus, (long long)value_head * sizes.key_width)};
    }

    DEVICE void start(int thread) {
        for (int row = thread / COLUMNS; row < sizes.key_width; row += ROW_GROUPS)
            shared.state[row * COLUMNS + thread % COLUMNS] =
                arrays.initial_state && has_column(thread) ? double(arrays.initial_state[of_state(row, thread)]) : 0;
    }

    DEVICE void fetch(int t, int thread) {
        Token<Real> x = token(t);
        for (int i = thread; i < sizes.key_width; i += THREADS) {
            Row row;
            System::row(x, i, row);
            shared.rows[t % 2 * sizes.key_width + i] = row;
        }
        if (thread < COLUMNS && has_column(thread))
            shared.values[t % 2 * COLUMNS + thread] =
                arrays.values[of_value_head(t, sizes.value_width) + first_column + thread];
    }

    DEVICE const Row* rows(int t) const { return shared.rows + t % 2 * sizes.key_width; }

    DEVICE double value(int t, int thread) const { return shared.values[t % 2 * COLUMNS + thread % COLUMNS]; }

    DEVICE static double sum_of_groups(const double* parts, int thread) {
        double sum = 0;
        for (int group = 0; group < ROW_GROUPS; ++group) sum += parts[group * COLUMNS + thread % COLUMNS];
        return sum;
    }

    // S_{t-1}^T p_t, the share of this thread's rows: pairs of rows stay together
    DEVICE void predict(int t, int thread) {
        double sum = 0;
        for (int first = thread / COLUMNS * 2; first < sizes.key_width; first += 2 * ROW_GROUPS)
            for (int i = first; i < first + 2 && i < sizes.key_width; ++i)
                sum += rows(t)[i].predict * shared.state[i * COLUMNS + thread % COLUMNS];
        shared.partial[thread] = sum;
    }

    // the new state in this thread's rows, and their share of the output
    DEVICE void update(int t, int thread) {
        double v = value(t, thread), sum = 0;
        double error = (System::corrects ? v : 0) - sum_of_groups(shared.partial, thread);
        for (int first = thread / COLUMNS * 2; first < sizes.key_width; first += 2 * ROW_GROUPS) {
            if constexpr (System::turns) turn(rows(t)[first], first, thread);
            for (int i = first; i < first + 2 && i < sizes.key_width; ++i) {
                const Row& row = rows(t)[i];
                double& entry = shared.state[i * COLUMNS + thread % COLUMNS];
                if constexpr (System::reads_before) sum += row.read * (entry + row.bonus * v);
                entry = row.fade * entry + row.erase * error + row.write * v;
                if constexpr (!System::reads_before) sum += row.read * entry;
            }
        }
        shared.outputs[thread] = sum;
    }

    // R^T times a pair of rows
    DEVICE void turn(const Row& row, int first, int thread) {
        double& upper = shared.state[first * COLUMNS + thread % COLUMNS];
        double& lower = shared.state[(first + 1) * COLUMNS + thread % COLUMNS];
        double turned = row.cosine * upper + row.sine * lower;
        lower = row.cosine * lower - row.sine * upper;
        upper = turned;
    }

    DEVICE void write_output(int t, int thread) {
        if (thread < COLUMNS && has_column(thread))
            arrays.output[of_value_head(t, sizes.value_width) + first_column + thread] =
                Real(sum_of_groups(shared.outputs, thread));
    }

    DEVICE void write_state(int thread) {
        if (!has_column(thread)) return;
        for (int row = thread / COLUMNS; row < sizes.key_width; row += ROW_GROUPS)
            arrays.final_state[of_state(row, thread)] = Real(shared.state[row * COLUMNS + thread % COLUMNS]);
    }

    DEVICE void run() {
        EACH_THREAD {
            start(thread);
            fetch(0, thread);
        }
        BARRIER;
        for (int t = 0; t < sizes.tokens; ++t) {
            EACH_THREAD {
                if (t > 0) write_output(t - 1, thread);
                predict(t, thread);
                if (t + 1 < sizes.tokens) fetch(t + 1, thread);
            }
            BARRIER;
            EACH_THREAD update(t, thread);
            BARRIER;
        }
        EACH_THREAD {
            write_output(sizes.tokens - 1, thread);
            write_state(thread);
        }
    }
};

#define SYSTEMS(ENTRY)                          \
    ENTRY(linear_attention, LinearAttention)    \
    ENTRY(decayed_attention, DecayedAttention)  \
    ENTRY(mamba2, Mamba2)                       \
    ENTRY(retnet, RetNet)                       \
    ENTRY(gla, Gla)                             \
    ENTRY(rwkv6, Rwkv6)                         \
    ENTRY(deltanet, DeltaNet)                   \
    ENTRY(gated_deltanet, GatedDeltaNet)        \
    ENTRY(kda, Kda)                             \
    ENTRY(comba, Comba)                         \
    ENTRY(rwkv7, Rwkv7)                         \
    ENTRY(path_attention, PathAttention)

// A launch passes numbers and pointers one by one.
#define PARAMETERS(Real)                                                                                     \
    int tokens, int heads, int value_heads, int key_width, int value_width, const Real *queries,             \
        const Real *keys, const Real *others, const Real *values, const Real *log_gates,                     \
        const Real *strengths, const Real *cosines, const Real *sines, const Real *bonus,                    \
        const Real *initial_state, Real *output, Real *final_state
#define BLOCK(System, Real, index, memory)                                                                   \
    Block<System, Real>({tokens, heads, value_heads, key_width, value_width},                                \
                        {queries, keys, others, values, log_gates, strengths, cosines, sines, bonus,         \
                         initial_state, output, final_state},                                                \
                        index, memory)

#ifndef ON_HOST
#define KERNEL(name, System, Real, precision)                                                                \
    extern "C" __global__ void __launch_bounds__(THREADS) name##_##precision(PARAMETERS(Real)) {             \
        extern __shared__ double memory[];                                                                   \
        BLOCK(System, Real, blockIdx.x, memory).run();                                                       \
    }
#define KERNELS(name, System) KERNEL(name, System, float, float32) KERNEL(name, System, double, float64)
SYSTEMS(KERNELS)
#endif
