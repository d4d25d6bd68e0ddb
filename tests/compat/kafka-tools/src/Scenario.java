/** One row of the result: a tool, and the steps that it is taken through. */
interface Scenario {
    void run(Steps steps) throws Exception;
}
